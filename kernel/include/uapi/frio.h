/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* Netlink attributes and statistics of the qdisc frio; the names are the words of tc. */
#ifndef UAPI_FRIO_H
#define UAPI_FRIO_H

#include <linux/types.h>

enum {
	TCA_FRIO_UNSPEC,
	TCA_FRIO_PAD,
	TCA_FRIO_LIMIT,			/* u32, bytes */
	TCA_FRIO_IN_MIN,		/* u32, bytes */
	TCA_FRIO_IN_MAX,		/* u32, bytes */
	TCA_FRIO_IN_PROBABILITY,	/* u32, Q0.32 */
	TCA_FRIO_OUT_MIN,		/* u32, bytes */
	TCA_FRIO_OUT_MAX,		/* u32, bytes */
	TCA_FRIO_OUT_PROBABILITY,	/* u32, Q0.32 */
	TCA_FRIO_MODE,			/* u8, enum tc_frio_mode */
	TCA_FRIO_SHARE,			/* u8, enum tc_frio_share */
	TCA_FRIO_MANY_FLOWS,		/* u8, 0 or 1 */
	TCA_FRIO_MINQ,			/* u32, packets of avpkt bytes */
	TCA_FRIO_FLOWS,			/* u32 */
	TCA_FRIO_EWMA,			/* u8: the weight is 2^-ewma */
	TCA_FRIO_AVPKT,			/* u32, bytes */
	TCA_FRIO_BANDWIDTH,		/* u64, bytes/s */
	TCA_FRIO_IN,			/* u8, codepoint */
	TCA_FRIO_SEED,			/* u64 */
	__TCA_FRIO_MAX
};

#define TCA_FRIO_MAX	(__TCA_FRIO_MAX - 1)

enum tc_frio_mode {
	TC_FRIO_COUPLED,
	TC_FRIO_DECOUPLED,
};

enum tc_frio_share {
	TC_FRIO_SHARE_INSTANT,
	TC_FRIO_SHARE_AVERAGE,
};

#define TC_FRIO_MINQ_MAX	65535		/* packets */
#define TC_FRIO_AVPKT_MAX	65535		/* bytes */
#define TC_FRIO_FLOWS_MAX	1048576

struct tc_frio_class_xstats {
	__u64 enqueued;			/* packets */
	__u64 enqueued_bytes;
	__u64 early;			/* dropped at random between min and max */
	__u64 early_bytes;
	__u64 forced;			/* dropped at or above max */
	__u64 forced_bytes;
	__u64 strike;			/* dropped because their flow had too much queued */
	__u64 strike_bytes;
	__u64 pdrop;			/* dropped for the limit */
	__u64 pdrop_bytes;
	__u32 backlog;			/* bytes */
	__u32 average;			/* bytes: what the class is judged by */
	__u32 flows;			/* with packets in the view that the class is judged in */
	__u32 unused;
};

struct tc_frio_xstats {
	struct tc_frio_class_xstats in;
	struct tc_frio_class_xstats out;
	__u64 overflow;			/* packets that arrived of flows without a record */
	__u32 flows;			/* with a record now */
	__u32 unused;
};

#endif /* UAPI_FRIO_H */
