/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the markers `tcpf` and `token` and their tools say to each other. Each word is a netlink
 * attribute, a __u8 or a __u32. Those that both markers have stand here; a kind's own follow in its
 * header.
 */
#ifndef UAPI_MARKER_H
#define UAPI_MARKER_H

#include <linux/pkt_cls.h>
#include <linux/types.h>

enum {
	TCA_MARKER_UNSPEC,
	TCA_MARKER_TM,		/* struct tcf_t */
	TCA_MARKER_PARMS,	/* struct tc_marker */
	TCA_MARKER_PAD,
	TCA_MARKER_XSTATS,	/* the kind's own structure */
	TCA_MARKER_CONTROL,	/* __u32: TC_ACT_PIPE ... ; not given: stays, at first pipe */
	TCA_MARKER_INTERVAL,	/* __u32: us between two ticks */
	TCA_MARKER_TOKENS,	/* __u32: bytes for each interval */
	TCA_MARKER_IN,		/* __u8: codepoint of what is in profile */
	TCA_MARKER_OUT,		/* __u8: codepoint of what is out of profile */
	TCA_MARKER_FLOWS,	/* __u32: flows remembered at a time */
	TCA_MARKER_FORWARD,	/* __u8: enum tc_marker_forward */
	__TCA_MARKER_OWN,	/* the first attribute of the kind's own */
};

#define TCA_MARKER_FIRST_WORD	TCA_MARKER_INTERVAL

/* index as given, the rest as in every action; control is told by TCA_MARKER_CONTROL. */
struct tc_marker {
	tc_gen;
};

/* Where the packets that are marked are seen; the other direction is only read. */
enum tc_marker_forward {
	TC_MARKER_FORWARD_INGRESS,
	TC_MARKER_FORWARD_EGRESS,
	__TC_MARKER_FORWARD_MAX,
};

#define TC_MARKER_INTERVAL_MIN	1000		/* us: a tick looks at every flow that sends */
#define TC_MARKER_INTERVAL_MAX	4000000		/* us: in ns it is below 2^32 */
#define TC_MARKER_TOKENS_MAX	0x7fffffff	/* bytes */
#define TC_MARKER_DSCP_MAX	63
#define TC_MARKER_FLOWS_MAX	262144		/* a change moves them all under the lock: 30 ms */

#define TC_MARKER_IN_DEFAULT	10	/* AF11 */
#define TC_MARKER_OUT_DEFAULT	12	/* AF12 */
#define TC_MARKER_FLOWS_DEFAULT	65536

#endif /* UAPI_MARKER_H */
