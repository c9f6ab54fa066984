/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the qdiscs `rio` and `frio`, queues of two drop precedences, and their tools say to each
 * other; the names are the words of tc. What both have stands here, a kind's own in its header.
 */
#ifndef UAPI_PRECEDENCE_H
#define UAPI_PRECEDENCE_H

#include <linux/types.h>

enum {
	TCA_PRECEDENCE_UNSPEC,
	TCA_PRECEDENCE_PAD,
	TCA_PRECEDENCE_LIMIT,			/* u32, bytes */
	TCA_PRECEDENCE_IN_MIN,			/* u32, bytes */
	TCA_PRECEDENCE_IN_MAX,			/* u32, bytes */
	TCA_PRECEDENCE_IN_PROBABILITY,		/* u32, Q0.32 */
	TCA_PRECEDENCE_OUT_MIN,			/* u32, bytes */
	TCA_PRECEDENCE_OUT_MAX,			/* u32, bytes */
	TCA_PRECEDENCE_OUT_PROBABILITY,		/* u32, Q0.32 */
	TCA_PRECEDENCE_MODE,			/* u8, enum tc_precedence_mode */
	TCA_PRECEDENCE_EWMA,			/* u8: the weight is 2^-ewma */
	TCA_PRECEDENCE_AVPKT,			/* u32, bytes */
	TCA_PRECEDENCE_BANDWIDTH,		/* u64, bytes/s */
	TCA_PRECEDENCE_IN,			/* u8, codepoint */
	TCA_PRECEDENCE_SEED,			/* u64 */
	__TCA_PRECEDENCE_OWN,			/* the first attribute of the kind's own */
};

#define TC_PRECEDENCE_EWMA_MAX	31
#define TC_PRECEDENCE_DSCP_MAX	63

enum tc_precedence_mode {
	TC_PRECEDENCE_COUPLED,
	TC_PRECEDENCE_DECOUPLED,
	TC_PRECEDENCE_WRED,			/* rio alone */
};

struct tc_precedence_count {
	__u64 packets;
	__u64 bytes;
};

#endif /* UAPI_PRECEDENCE_H */
