/* SPDX-License-Identifier: GPL-2.0 */
/* The marker `token`: a token bucket, see net/token_marker.h. */
#ifndef UAPI_TOKEN_H
#define UAPI_TOKEN_H

#include <linux/types.h>

#include "marker.h"

#define TCA_ID_TOKEN 201	/* unused by the kernel's own actions, whose numbers end below 32 */

enum {
	TCA_TOKEN_MODE = __TCA_MARKER_OWN,	/* __u8: enum tc_token_mode */
	__TCA_TOKEN_MAX,
};

#define TCA_TOKEN_MAX (__TCA_TOKEN_MAX - 1)

enum tc_token_mode {
	TC_TOKEN_MODE_RESET,
	TC_TOKEN_MODE_CONTINUOUS,
	TC_TOKEN_MODE_FLOW,
	__TC_TOKEN_MODE_MAX,
};

/* TCA_MARKER_XSTATS */
struct tc_token_xstats {
	__u64 in_packets;
	__u64 in_bytes;
	__u64 out_packets;
	__u64 out_bytes;
	__u64 untouched;	/* packets that could not be parsed, or not be written to */
	__u64 evicted;		/* flows forgotten for want of room, their pool not full */
	__u32 flows_now;
	__u32 pad;
};

#endif /* UAPI_TOKEN_H */
