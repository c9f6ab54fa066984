/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The early drop of RED: what becomes of a packet at an average queue size.
 *
 * Source: S. Floyd and V. Jacobson, "Random Early Detection Gateways for
 * Congestion Avoidance", IEEE/ACM Transactions on Networking, 1993, sections 4
 * and 7; non-gentle, without weighting by packet size.
 *
 *	avg < min	  pass
 *	min <= avg < max  pb = probability (avg - min) / (max - min),
 *			  then drop as uniformize says
 *	max <= avg	  drop
 *
 * uniformize none drops with probability pb, independently: distances between drops
 * are geometric. The fixed-point model of RIO by N. Malouch and Z. Liu (INRIA RR-4469)
 * assumes that. uniformize red spreads the drops, so that at a steady pb the
 * distances are uniform on 1 ... 1/pb, the paper's method 2:
 *
 *	after a drop	  draw u uniform on [0, 1), count = 0
 *	then		  count = count + 1, drop if count pb >= u
 *
 * The first packet between the thresholds, coming from outside, draws u and passes.
 * This is what Linux's red does.
 *
 * Decision: Linux's form, although the paper gives method 2 a second one, and its Fig. 2
 * that one alone:
 *
 *	count = count + 1, pa = pb / (1 - count pb) or 1 once count pb >= 1
 *	drop with probability pa; if dropped, count = 0
 *
 * First, experiments put rio beside the kernel's own red, and what differs there must
 * be the marks: rio with nothing marked has to be red. In the second form each packet
 * is drawn for, count is one ahead, and at a steady pb the distances are up to
 * 1/pb - 1: 2 pb of the packets are dropped where red drops 2 pb / (1 + pb). Deciding
 * afresh each time, it also reacts less to a pb that rises. 100 TCP flows over 10 Mbit/s
 * lose 3 to 4 % more packets with it than with red. Second, Linux's form draws once per
 * drop, not once per packet.
 *
 * The second form is early_drop_random here, for FRED: it exempts some packets from the
 * draw, and where a drop that is due meets an exempt packet, Linux's form would hand it
 * to the next packet, whoever sends it.
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
 * bits shifted out of d, if any are, less than probability / 2^31 < 2, because span
 * is at least 2^31 then. span itself loses none: it is a multiple of 2^ewma, and no
 * more than ewma bits go. So pb is never too large, and too small by less than 2^-30.
 *
 * All decisions compare pb with a threshold that pb does not occur in: u / count for
 * red. With rnd uniform on 0 ... 2^32 - 1, rnd / 2^32 < pa is decided as
 *
 *	rnd (2^32 - count pb) < pb 2^32			both sides below 2^64
 *
 * which is pb > rnd 2^32 / (2^32 + count rnd). So a decision is that of exact
 * arithmetic unless the exact pb lies less than 2^-30 above the threshold.
 */
#ifndef NET_EARLY_DROP_H
#define NET_EARLY_DROP_H

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
	s32 count;		/* packets since the last drop, or one of these: */
#define EARLY_DROP_OUTSIDE	-1	/* avg was not between the thresholds */
#define EARLY_DROP_DROPPED	-2	/* the last packet was dropped */
	u32 u;			/* while count >= 0; Q0.32 */
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
	v->count = EARLY_DROP_OUTSIDE;
	v->u = 0;
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

/* Whether early_drop_decide takes a random number: draw one then, and only then. */
static inline bool early_drop_draws(const struct early_drop_params *p,
				    const struct early_drop_vars *v, u64 scaled)
{
	return early_drop_zone(p, scaled) == EARLY_DROP_BETWEEN && (!p->uniformize || v->count < 0);
}

/* The decision of uniformize red between the thresholds. */
static inline bool early_drop_spread(const struct early_drop_params *p, struct early_drop_vars *v,
				     u64 scaled, u32 rnd)
{
	if (v->count < 0) {
		bool enters = v->count == EARLY_DROP_OUTSIDE;

		v->u = rnd;
		v->count = 0;
		if (enters)
			return false;
	}
	if (v->count < EARLY_DROP_MAX_COUNT)
		v->count++;
	if ((u64)early_drop_pb(p, scaled) * (u32)v->count < v->u)
		return false;
	v->count = EARLY_DROP_DROPPED;
	return true;
}

/* The decision on a packet; rnd is uniform on 32 bits. */
static inline enum early_drop_verdict early_drop_decide(const struct early_drop_params *p,
							struct early_drop_vars *v, u64 scaled,
							u32 rnd)
{
	enum early_drop_zone zone = early_drop_zone(p, scaled);
	bool drop;

	if (zone == EARLY_DROP_BETWEEN) {
		drop = p->uniformize ? early_drop_spread(p, v, scaled, rnd) :
				       rnd < early_drop_pb(p, scaled);
		return drop ? EARLY_DROP_RANDOM : EARLY_DROP_PASS;
	}
	v->count = EARLY_DROP_OUTSIDE;
	return zone == EARLY_DROP_BELOW ? EARLY_DROP_PASS : EARLY_DROP_FORCED;
}

/*
 * The decision with pa between the thresholds, for one packet by itself. count is
 * -1 outside of them, and 0 after a drop; uniformize none leaves it at pb.
 */
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

#endif /* NET_EARLY_DROP_H */
