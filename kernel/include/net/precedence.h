/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What queues of two drop precedences, RIO and FRIO, are configured with and count for each.
 */
#ifndef NET_PRECEDENCE_H
#define NET_PRECEDENCE_H

#include <linux/types.h>

/* Drop probabilities over average backlog. */
struct precedence_curve {
	u32 min;		/* bytes; FRIO: not 0 */
	u32 max;		/* bytes, at least min */
	u32 probability;	/* Q0.32 */
};

struct precedence_count {
	u64 packets;
	u64 bytes;
};

#endif /* NET_PRECEDENCE_H */
