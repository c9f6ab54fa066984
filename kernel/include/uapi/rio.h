/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* Netlink attributes and statistics of the qdisc rio; the names are the words of tc. */
#ifndef UAPI_RIO_H
#define UAPI_RIO_H

#include <linux/types.h>

enum {
	TCA_RIO_UNSPEC,
	TCA_RIO_PAD,
	TCA_RIO_LIMIT,			/* u32, bytes */
	TCA_RIO_IN_MIN,			/* u32, bytes */
	TCA_RIO_IN_MAX,			/* u32, bytes */
	TCA_RIO_IN_PROBABILITY,		/* u32, Q0.32 */
	TCA_RIO_OUT_MIN,		/* u32, bytes */
	TCA_RIO_OUT_MAX,		/* u32, bytes */
	TCA_RIO_OUT_PROBABILITY,	/* u32, Q0.32 */
	TCA_RIO_MODE,			/* u8, enum tc_rio_mode */
	TCA_RIO_UNIFORMIZE,		/* u8, enum tc_rio_uniformize */
	TCA_RIO_EWMA,			/* u8: the weight is 2^-ewma */
	TCA_RIO_AVPKT,			/* u32, bytes */
	TCA_RIO_BANDWIDTH,		/* u64, bytes/s */
	TCA_RIO_IN,			/* u8, codepoint */
	TCA_RIO_SEED,			/* u64 */
	__TCA_RIO_MAX
};

#define TCA_RIO_MAX	(__TCA_RIO_MAX - 1)

enum tc_rio_mode {
	TC_RIO_COUPLED,
	TC_RIO_DECOUPLED,
	TC_RIO_WRED,
};

enum tc_rio_uniformize {
	TC_RIO_UNIFORMIZE_NONE,
	TC_RIO_UNIFORMIZE_RED,
};

struct tc_rio_class_xstats {
	__u64 enqueued;			/* packets */
	__u64 enqueued_bytes;
	__u64 early;			/* dropped at random between min and max */
	__u64 early_bytes;
	__u64 forced;			/* dropped at or above max */
	__u64 forced_bytes;
	__u64 pdrop;			/* dropped for the limit */
	__u64 pdrop_bytes;
	__u32 backlog;			/* bytes */
	__u32 average;			/* bytes */
};

struct tc_rio_xstats {
	struct tc_rio_class_xstats in;
	struct tc_rio_class_xstats out;
	__u32 average;			/* bytes, of both classes together */
	__u32 unused;
};

#endif /* UAPI_RIO_H */
