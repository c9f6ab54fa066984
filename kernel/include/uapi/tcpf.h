/* SPDX-License-Identifier: GPL-2.0 */
/* The marker `tcpf`: TCP-friendly marking, see net/tcpf_marker.h. */
#ifndef UAPI_TCPF_H
#define UAPI_TCPF_H

#include <linux/types.h>

#include "marker.h"

#define TCA_ID_TCPF 200	/* unused by the kernel's own actions, whose numbers end below 32 */

enum {
	TCA_TCPF_PROFILE = __TCA_MARKER_OWN,	/* __u8: enum tc_tcpf_profile */
	TCA_TCPF_RETRANSMITS,			/* __u8: enum tc_tcpf_retransmits */
	__TCA_TCPF_MAX,
};

#define TCA_TCPF_MAX (__TCA_TCPF_MAX - 1)

enum tc_tcpf_profile {
	TC_TCPF_PROFILE_RECOMMENDED,
	TC_TCPF_PROFILE_PAPER,
	TC_TCPF_PROFILE_LETTER,
	__TC_TCPF_PROFILE_MAX,
};

enum tc_tcpf_retransmits {
	TC_TCPF_RETRANSMITS_PROTECT,
	TC_TCPF_RETRANSMITS_PLAIN,
	__TC_TCPF_RETRANSMITS_MAX,
};

/* Why a packet was marked as it was; the first six are IN, the next four OUT. */
enum tc_tcpf_reason {
	TC_TCPF_CONTROL,	/* SYN, FIN or RST without data */
	TC_TCPF_ACK,		/* pure ACK */
	TC_TCPF_RETRANSMISSION,
	TC_TCPF_NEW,		/* no tick yet, paid from what is spare */
	TC_TCPF_TINY,		/* allocated, tiny flow */
	TC_TCPF_ALLOCATED,	/* allocated, other flow */
	TC_TCPF_SPACED,		/* has tokens, but not yet its turn */
	TC_TCPF_NO_TOKENS,	/* has used up its share */
	TC_TCPF_NO_SPARE,	/* no tick yet, and nothing spare */
	TC_TCPF_OTHER,		/* not TCP, or a fragment */
	TC_TCPF_UNPARSEABLE,	/* not marked */
	__TC_TCPF_REASONS,
};

struct tc_tcpf_count {
	__u64 packets;
	__u64 bytes;
};

/* TCA_MARKER_XSTATS, as of the last packet */
struct tc_tcpf_xstats {
	struct tc_tcpf_count reason[__TC_TCPF_REASONS];
	__u64 unwritable;	/* packets that were to be marked and could not be written to */
	__u64 ticks;
	__u64 evicted;		/* flows forgotten for want of room */
	__u64 expired;		/* flows forgotten after their end, or 120 s of silence */
	__u32 flows_now;	/* flows remembered */
	__u32 active_flows;	/* of these, what the next tick has to look at */
	__u32 tiny_flows;	/* at the last tick */
	__u32 handshakes;	/* under way */
	__u32 pool;		/* bytes of this interval not used up; overdrafts count */
	__u32 spare;		/* bytes of this interval that are nobody's */
	__u32 debt;		/* bytes to be deducted from the next interval */
	__u32 pad;
};

#endif /* UAPI_TCPF_H */
