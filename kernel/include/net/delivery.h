/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A link whose rate changes at given instants.
 *
 * The link gives credit, bytes that may leave the queue, in one of two ways:
 *
 *	rates	steps of a rate, as a token bucket of `burst` bytes that fills at the rate in force
 *		(tbf with one rate is the same). Rate 0 is an outage. Before the first step its rate
 *		is in force, behind the last one that.
 *	trace	delivery opportunities as in mahimahi's traces (R. Netravali et al., "Mahimahi:
 *		Accurate Record-and-Replay for HTTP", USENIX ATC 2015): at a millisecond's beginning
 *		so many times DELIVERY_OPPORTUNITY bytes. What nobody waits for is lost; a packet
 *		may take its bytes from several opportunities. The trace repeats.
 *
 * Credit is counted in 1e-9 bytes, so that a rate times a time is exact. Steps and milliseconds
 * count from the epoch. The caller has the clock: `now` never goes back.
 */
#ifndef NET_DELIVERY_H
#define NET_DELIVERY_H

#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

#define DELIVERY_OPPORTUNITY	1514		/* bytes: 1500 of IP, as tc counts them */
#define DELIVERY_BYTE		1000000000ULL	/* credit of one byte */
#define DELIVERY_MS		1000000		/* ns */
#define DELIVERY_NEVER		S64_MAX

struct delivery_step {
	s64 at;		/* ns after the epoch */
	u64 rate;	/* bytes/s */
};

struct delivery {
	struct delivery_step *steps;	/* upwards; NULL: a trace */
	u8 *trace;			/* opportunities of each millisecond */
	u32 length;			/* of either */
	u32 burst;			/* bytes, of rates */
	s64 epoch;
	s64 at;				/* when the credit was counted */
	u64 credit;
	u32 step;			/* in force at that time */
};

/* End of the step in force. */
static inline s64 delivery_step_end(const struct delivery *d, u32 step)
{
	return step + 1 < d->length ? d->epoch + d->steps[step + 1].at : DELIVERY_NEVER;
}

/* Opportunities at the millisecond with a number, which may be below 0. */
static inline u8 delivery_opportunities(const struct delivery *d, s64 ms)
{
	s64 round = div64_s64(ms, d->length);
	s64 index = ms - round * d->length;

	return d->trace[index < 0 ? index + d->length : index];
}

/* Number of the last millisecond that has begun. */
static inline s64 delivery_ms(const struct delivery *d, s64 now)
{
	s64 past = now - d->epoch, ms = div_s64(past, DELIVERY_MS);

	return ms * DELIVERY_MS > past ? ms - 1 : ms;
}

/* Begin, or go on with other steps, another trace or epoch: the credit stays. */
static inline void delivery_begin(struct delivery *d, s64 now)
{
	d->at = now;
	d->step = 0;
	while (d->steps && delivery_step_end(d, d->step) <= now)
		d->step++;
}

static inline void delivery_fill_rates(struct delivery *d, s64 now, u64 most)
{
	while (d->at < now) {
		u64 rate = d->steps[d->step].rate, room = most > d->credit ? most - d->credit : 0;
		s64 end = delivery_step_end(d, d->step), until = min(now, end);
		u64 time = until - d->at;

		if (rate)
			d->credit += time > div64_u64(room, rate) ? room : rate * time;
		d->at = until;
		if (until == end)
			d->step++;
	}
}

/*
 * Count the credit that the link has given until now. In a bucket there is room for the burst, or
 * for the packet of `len` bytes that waits and half the burst, if that is more: what it gains while
 * a late timer fires goes to the next packet.
 */
static inline void delivery_fill(struct delivery *d, s64 now, u32 len)
{
	s64 ms;

	if (d->steps) {
		delivery_fill_rates(d, now, max(d->burst, len + d->burst / 2) * DELIVERY_BYTE);
		return;
	}
	for (ms = delivery_ms(d, d->at) + 1; ms <= delivery_ms(d, now); ms++)
		d->credit += delivery_opportunities(d, ms) * DELIVERY_OPPORTUNITY * DELIVERY_BYTE;
	d->at = now;
}

/* Nothing waits, or nothing did until now: opportunities are lost. */
static inline void delivery_idle(struct delivery *d, s64 now)
{
	if (d->steps)
		return;
	d->credit = 0;
	d->at = now;
}

/* Take the credit of a packet; false if there is not enough. */
static inline bool delivery_take(struct delivery *d, u32 len)
{
	if (d->credit < len * DELIVERY_BYTE)
		return false;
	d->credit -= len * DELIVERY_BYTE;
	return true;
}

static inline s64 delivery_when_rates(const struct delivery *d, u64 need)
{
	u32 step = d->step;
	s64 from = d->at;

	for (;;) {
		u64 rate = d->steps[step].rate, left = 0;
		s64 end = delivery_step_end(d, step);

		if (rate) {
			u64 time = div64_u64_rem(need, rate, &left) + !!left;

			if (time <= (u64)(end - from))
				return from + time;
			need -= rate * (end - from);
		}
		if (end == DELIVERY_NEVER)
			return DELIVERY_NEVER;
		from = end;
		step++;
	}
}

/*
 * When to ask again for a packet that delivery_take() refused: when there will be the credit, or
 * more of it, counted from the last delivery_fill().
 */
static inline s64 delivery_when(const struct delivery *d, u32 len)
{
	s64 ms;
	u32 i;

	if (d->steps)
		return delivery_when_rates(d, len * DELIVERY_BYTE - d->credit);
	ms = delivery_ms(d, d->at) + 1;
	for (i = 0; i < d->length; i++, ms++)
		if (delivery_opportunities(d, ms))
			return d->epoch + ms * DELIVERY_MS;
	return DELIVERY_NEVER;
}

#endif /* NET_DELIVERY_H */
