/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Average size of a queue: the estimator of RED.
 *
 * Source: S. Floyd and V. Jacobson, "Random Early Detection Gateways for
 * Congestion Avoidance", IEEE/ACM Transactions on Networking, 1993, section 4.
 *
 * With q the backlog in bytes that an arriving packet finds (itself not counted),
 * W = 2^-ewma, s = avpkt / bandwidth the time of a typical packet, and idle the
 * time since the queue became empty:
 *
 *	q > 0:	avg = (1 - W) avg + W q
 *	q = 0:	avg = (1 - W)^(idle / s) avg
 *
 * An arrival that finds the queue empty ages the average and adds no sample
 * of 0 to it: the idle packets that never were are those samples already. If
 * that packet is dropped the queue stays empty, so what was aged for is not
 * aged for again: the idle clock starts anew at each such arrival.
 *
 * ewma = 0, that is W = 1, makes avg the instantaneous backlog.
 *
 * Fixed point
 * -----------
 * scaled = avg * 2^ewma, an integer. The first line becomes
 *
 *	scaled += q - (scaled >> ewma)
 *
 * The shift rounds the part that leaves down by less than 1. That error e
 * obeys e' = (1 - W) e + d with 0 <= d < 1, so 0 <= e < 1/W always: avg is too
 * large by less than 1 byte, never too small, however many steps it takes.
 * With q < 2^32 and ewma <= 31, scaled stays below 2^63.
 *
 * Ageing
 * ------
 * (1 - W)^(idle / s) = 2^-x with x = idle L / s and L = -log2(1 - W). x has 6
 * bits before and 58 bits after the point,
 *
 *	x = (idle >> idle_shift) * idle_rate
 *
 * and idle_limit is the first shifted idle time for which that no longer fits:
 * x reaches 64 there, and an average below 2^63 has vanished. So nothing wraps
 * around, however long the queue idles.
 *
 * Error of x: idle_rate is good to 2^-29 (set_params says why) and x < 64, hence
 * 2^-23; the bits of idle that are shifted out weigh less than one idle_rate,
 * which is less than 2^33 then, of 2^58, hence 2^-25. For 2^-x that makes a
 * relative error of ln 2 (2^-23 + 2^-25) < 0.87 * 2^-23; exp2 adds 2^-28.6.
 * Together: less than 2^-23 of the average, and less than 1 unit of scaled, which
 * is 2^-ewma byte, for rounding the product down.
 */
#ifndef NET_QUEUE_AVERAGE_H
#define NET_QUEUE_AVERAGE_H

#include <linux/types.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/bitops.h>

#define QUEUE_AVERAGE_MAX_EWMA	31

struct queue_average_params {
	u64 idle_rate;		/* x per unit of idle >> idle_shift, times 2^58 */
	u64 idle_limit;		/* from here on the average has vanished */
	u8 idle_shift;
	u8 ewma;		/* W = 2^-ewma */
};

struct queue_average {
	u64 scaled;		/* avg * 2^ewma, bytes */
	u64 idle_since;		/* ns; means something while the queue is empty */
};

/*
 * -log2(1 - 2^-ewma) * 2^ewma, times 2^30: 2 for W = 1/2, towards 1/ln 2 for
 * small W; rounded to nearest, so good to 2^-31 relatively.
 */
static inline u32 queue_average_decay(u8 ewma)
{
	static const u32 decay[] = {
		0x80000000, 0x6a3fe5c6, 0x62a2602b, 0x5f58125b, 0x5dce5327,
		0x5d0fba18, 0x5cb1ee88, 0x5c836702, 0x5c6c3a91, 0x5c60aa25,
		0x5c5ae362, 0x5c58005c, 0x5c568ef1, 0x5c55d641, 0x5c5579ea,
		0x5c554bbf, 0x5c5534aa, 0x5c55291f, 0x5c55235a, 0x5c552077,
		0x5c551f06, 0x5c551e4d, 0x5c551df1, 0x5c551dc3, 0x5c551dac,
		0x5c551da0, 0x5c551d9a, 0x5c551d98, 0x5c551d96, 0x5c551d95,
		0x5c551d95,
	};

	return decay[ewma - 1];
}

/* Cut to 32 significant bits: value = result * 2^exponent, 2^-31 too small at most. */
static inline u32 queue_average_mantissa(u64 value, int *exponent)
{
	*exponent = fls64(value) - 32;
	return *exponent < 0 ? value << -*exponent : value >> *exponent;
}

/*
 * ewma at most QUEUE_AVERAGE_MAX_EWMA; avpkt in bytes and bandwidth in bytes/s, above 0.
 *
 *	L / s = decay 2^-30 2^-ewma bandwidth / (avpkt 10^9)	per ns
 *
 * Bandwidth and avpkt 10^9 are cut to 32 bits, 2^-31 each; decay is rounded to 2^-31;
 * the quotient, at least 2^30.5, is rounded down, 2^-30.5: in all less than 2^-29.
 * From 22 halvings per ns on (a packet takes less than 50 ps) idle_rate is capped at 64.
 */
static inline void queue_average_set_params(struct queue_average_params *p, u8 ewma,
					    u32 avpkt, u64 bandwidth)
{
	int bandwidth_exponent, avpkt_exponent, up;
	u32 bits, divisor;

	p->ewma = ewma;
	p->idle_shift = 0;
	p->idle_rate = 0;
	p->idle_limit = 0;
	if (!ewma)		/* (1 - 1)^anything */
		return;

	bits = queue_average_mantissa(bandwidth, &bandwidth_exponent);
	divisor = queue_average_mantissa(avpkt * 1000000000ULL, &avpkt_exponent);
	p->idle_rate = div_u64(2 * (u64)queue_average_decay(ewma) * bits, divisor);

	/* The quotient counts in units of 2^-up; idle_rate in 2^-58. */
	up = 58 - 31 - ewma + bandwidth_exponent - avpkt_exponent;
	if (up > 31)
		p->idle_rate = U64_MAX;
	else if (up >= 0)
		p->idle_rate <<= up;
	else	/* beyond 63 lie idle times of centuries */
		p->idle_shift = up > -63 ? -up : 63;
	p->idle_limit = div64_u64(U64_MAX, p->idle_rate) + 1;
}

/* An empty queue that has never held a packet. */
static inline void queue_average_init(struct queue_average *v, u64 now)
{
	v->scaled = 0;
	v->idle_since = now;
}

/* a * fraction / 2^32, rounded down */
static inline u64 queue_average_fraction_of(u64 a, u32 fraction)
{
	return (a >> 32) * fraction + (((a & U32_MAX) * fraction) >> 32);
}

/*
 * 2^-x for 0 <= x < 1, x and the result times 2^32.
 *
 * x = i/16 + r. The table has 2^-(i/16); for 1 it has 2^32 - 1. With z = r ln 2 < 0.0434
 *
 *	2^-r = e^-z = 1 - z (1 - z/2 (1 - z/3 (1 - z/4)))
 *
 * whose signs alternate: what is cut off is below z^5 / 120 < 2^-29.6, relatively to
 * e^-z > 0.957 below 2^-29.5. In units of 2^-32 the table is off by less than 1, the
 * outermost step by less than 1.2 (1 for its rounding, the inner steps' shrunk by z), and the last
 * product by 1; relatively to a result above 1/2 less than 2^-29.8. Together less than 2^-28.6.
 */
static inline u32 queue_average_exp2(u32 x)
{
	static const u32 sixteenth[] = {
		0xffffffff, 0xf5257d15, 0xeac0c6e8, 0xe0ccdeec,
		0xd744fccb, 0xce248c15, 0xc5672a11, 0xbd08a39f,
		0xb504f334, 0xad583eea, 0xa5fed6aa, 0x9ef53261,
		0x9837f052, 0x91c3d374, 0x8b95c1e4, 0x85aac368,
	};
	const u64 ln2 = 0xb17217f8, third = 0x55555555;
	u64 z = ((x & 0x0fffffff) * ln2) >> 32;
	u64 t = U32_MAX - (z >> 2);

	t = U32_MAX - ((((z * third) >> 32) * t) >> 32);
	t = U32_MAX - (((z >> 1) * t) >> 32);
	t = U32_MAX - ((z * t) >> 32);
	return (sixteenth[x >> 28] * t) >> 32;
}

static inline void queue_average_age(const struct queue_average_params *p,
				     struct queue_average *v, u64 now)
{
	u64 idle = (now - v->idle_since) >> p->idle_shift;

	v->idle_since = now;
	if (idle >= p->idle_limit) {
		v->scaled = 0;
		return;
	}
	idle *= p->idle_rate;	/* now x */
	v->scaled = queue_average_fraction_of(v->scaled, queue_average_exp2(idle >> 26)) >>
		    (idle >> 58);
}

/*
 * A packet arrives and finds backlog bytes. now, in ns and never running
 * backwards, is looked at only if backlog is 0: others need not read a clock.
 */
static inline void queue_average_arrival(const struct queue_average_params *p,
					 struct queue_average *v, u32 backlog, u64 now)
{
	if (backlog)
		v->scaled += backlog - (v->scaled >> p->ewma);
	else
		queue_average_age(p, v, now);
}

/* The last packet has left. */
static inline void queue_average_empty(struct queue_average *v, u64 now)
{
	v->idle_since = now;
}

/* The average in bytes, rounded down. */
static inline u32 queue_average_bytes(const struct queue_average_params *p,
				      const struct queue_average *v)
{
	return v->scaled >> p->ewma;
}

/* Keep the average when its weight changes. */
static inline void queue_average_rescale(struct queue_average *v, u8 from, u8 to)
{
	if (to >= from)
		v->scaled <<= to - from;
	else
		v->scaled >>= from - to;
}

/*
 * Before the parameters change, the weight to 2^-ewma: what has idled up to now has aged by the old
 * ones, p, and the average stays what it is then.
 */
static inline void queue_average_change(const struct queue_average_params *p,
					struct queue_average *v, u32 backlog, u8 ewma, u64 now)
{
	if (!backlog)
		queue_average_age(p, v, now);
	queue_average_rescale(v, p->ewma, ewma);
}

#endif /* NET_QUEUE_AVERAGE_H */
