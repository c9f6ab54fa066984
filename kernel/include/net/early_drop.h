/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The early drop of RED: what becomes of a packet at an average queue size.
 *
 * Source: S. Floyd and V. Jacobson, "Random Early Detection Gateways for
 * Congestion Avoidance", IEEE/ACM Transactions on Networking, 1993, section 4
 * and Fig. 2; non-gentle, without weighting by packet size.
 *
 *	avg < min	  pass, count = -1
 *	min <= avg < max  count = count + 1
 *			  pb = probability (avg - min) / (max - min)
 *			  pa = pb / (1 - count pb), or 1 once count pb >= 1
 *			  drop with probability pa; if dropped, count = 0
 *	max <= avg	  drop, count = 0
 *
 * count spreads the drops: at a steady pb their distances are uniform on
 * 1 ... 1/pb - 1 instead of geometric, and the share that is dropped is 2 pb.
 * Without it (uniformize none) pa = pb, which is what the fixed-point model of
 * RIO by N. Malouch and Z. Liu (INRIA RR-4469) assumes.
 *
 * Decision: count is the paper's. Linux's red drops the n-th packet as soon as n pb
 * exceeds one random number drawn after the last drop: distances up to 1/pb, a
 * share of 2 pb / (1 + pb), and one packet more that passes on entering the zone
 * and after a forced drop. The two agree for small pb, which is what RED is made for.
 *
 * Fixed point
 * -----------
 * avg comes scaled by 2^ewma (queue_average.h); probability is a Q0.32, as in red:
 * 2^32 - 1 stands for 1. d = scaled avg - scaled min is less than
 * span = (max - min) 2^ewma; both are shifted right until span fits into 32 bits.
 *
 *	slope = floor(probability 2^32 / span)		once
 *	pb = (d slope) >> 32				per packet, a Q0.32
 *
 * d slope < span slope <= probability 2^32 < 2^64, so nothing overflows. Rounding
 * slope costs less than d / 2^32 < 1 unit of 2^-32; the shift less than 1; the
 * bits shifted out of d, if any are, less than probability / 2^31 < 2, because
 * span is at least 2^31 then. span itself loses none: it is a multiple of 2^ewma, and no
 * more than ewma bits go. So pb is never too large, and too small by less than 2^-30.
 *
 * With rnd uniform on 0 ... 2^32 - 1, rnd / 2^32 < pa is decided without a division:
 *
 *	rnd (2^32 - count pb) < pb 2^32			both sides below 2^64
 *
 * which is pb > rnd 2^32 / (2^32 + count rnd), a threshold in which pb does not
 * occur. So the decision is that of exact arithmetic unless the exact pb lies
 * less than 2^-30 above the threshold.
 */
#ifndef _NET_EARLY_DROP_H
#define _NET_EARLY_DROP_H

#include <linux/types.h>
#include <linux/math64.h>
#include <linux/bitops.h>

enum early_drop_uniformize {
	EARLY_DROP_UNIFORMIZE_NONE,
	EARLY_DROP_UNIFORMIZE_RED,
};

struct early_drop_params {
	u64 min_scaled;
	u64 max_scaled;
	u64 slope;
	u32 min;		/* bytes */
	u32 max;		/* bytes, at least min */
	u32 probability;	/* at max, Q0.32 */
	u8 shift;
	u8 uniformize;		/* enum early_drop_uniformize */
};

#define EARLY_DROP_MAX_COUNT	0x7fffffff

struct early_drop_vars {
	s32 count;		/* packets since the last drop; -1: not between */
};

enum early_drop_zone {
	EARLY_DROP_BELOW,
	EARLY_DROP_BETWEEN,
	EARLY_DROP_ABOVE,
};

enum early_drop_verdict {
	EARLY_DROP_PASS,
	EARLY_DROP_RANDOM,
	EARLY_DROP_FORCED,
};

static inline void early_drop_set_params(struct early_drop_params *p, u32 min, u32 max,
					 u32 probability, u8 uniformize, u8 ewma)
{
	u64 span = (u64)(max - min) << ewma;
	int excess = fls64(span) - 32;

	p->min = min;
	p->max = max;
	p->probability = probability;
	p->uniformize = uniformize;
	p->min_scaled = (u64)min << ewma;
	p->max_scaled = (u64)max << ewma;
	p->shift = excess > 0 ? excess : 0;
	p->slope = span ? div64_u64((u64)probability << 32, span >> p->shift) : 0;
}

static inline void early_drop_init(struct early_drop_vars *v)
{
	v->count = -1;
}

static inline enum early_drop_zone early_drop_zone(const struct early_drop_params *p,
						   u64 scaled)
{
	if (scaled < p->min_scaled)
		return EARLY_DROP_BELOW;
	return scaled < p->max_scaled ? EARLY_DROP_BETWEEN : EARLY_DROP_ABOVE;
}

/* pb between the thresholds, Q0.32 */
static inline u32 early_drop_pb(const struct early_drop_params *p, u64 scaled)
{
	return (((scaled - p->min_scaled) >> p->shift) * p->slope) >> 32;
}

/* The random decision between the thresholds; rnd is uniform on 32 bits. */
static inline bool early_drop_random(const struct early_drop_params *p,
				     struct early_drop_vars *v, u64 scaled, u32 rnd)
{
	u64 pb = early_drop_pb(p, scaled);
	s32 count = v->count;
	u64 spread;		/* count pb */

	if (count < EARLY_DROP_MAX_COUNT)	/* where count pb >= 1 for pb of 2^-31 */
		count++;
	spread = p->uniformize ? pb * (u32)count : 0;
	if (spread < (1ULL << 32) && rnd * ((1ULL << 32) - spread) >= pb << 32) {
		v->count = count;
		return false;
	}
	v->count = 0;
	return true;
}

/*
 * The decision for a packet in a zone. rnd is needed between the thresholds
 * alone: draw it only there.
 */
static inline enum early_drop_verdict
early_drop_decide_in(enum early_drop_zone zone, const struct early_drop_params *p,
		     struct early_drop_vars *v, u64 scaled, u32 rnd)
{
	if (zone == EARLY_DROP_BELOW) {
		v->count = -1;
		return EARLY_DROP_PASS;
	}
	if (zone == EARLY_DROP_BETWEEN)
		return early_drop_random(p, v, scaled, rnd) ? EARLY_DROP_RANDOM : EARLY_DROP_PASS;
	v->count = 0;
	return EARLY_DROP_FORCED;
}

static inline enum early_drop_verdict early_drop_decide(const struct early_drop_params *p,
							struct early_drop_vars *v, u64 scaled,
							u32 rnd)
{
	return early_drop_decide_in(early_drop_zone(p, scaled), p, v, scaled, rnd);
}

#endif
