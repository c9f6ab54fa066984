/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flow Random Early Drop: RED that looks at what each flow has queued.
 *
 * Source: D. Lin and R. Morris, "Dynamics of Random Early Detection", SIGCOMM 1997, with the two
 * changes of A. Lo Monaco, A. Feroz and S. Kalyanaraman, "TCP-Friendly Marking for Scalable
 * Best-Effort Services on the Internet", section 5: a fair share of the instantaneous queue
 * (`share instant`), and an average that follows arrivals alone, with ageing over idle times in
 * place of samples at departures (queue_average.h).
 *
 * One view of a queue - the whole of it, or the packets of one class - has the backlog q, its
 * average avg, the number N of flows with packets in it, and the count of early_drop.h. A flow has
 * its own backlog there, qlen, and its strikes. For a packet that arrives:
 *
 *	share = max(q / N, 1 packet)		with share average: max(avg / N, 1 packet)
 *	maxq = min, but 2 packets if avg >= max					(block A)
 *
 *	qlen >= maxq, or
 *	avg >= max and qlen > 2 share, or					(line B)
 *	qlen >= share and strikes > 1	strikes += 1, drop
 *
 *	avg < min			count = -1, pass
 *	min <= avg < max		count += 1, drop as early_drop.h if qlen >= max(minq, share)
 *	max <= avg			count = 0, drop				(block C)
 *
 * All of this is in bytes, and 1 packet is `packet` bytes.
 *
 * Decisions:
 * - A and B always hold, and so B is not spelled out below: at or above max, A draws the line at 2
 *   packets, and 2 share is never less.
 * - many_flows leaves C out: the two-packet mode, in which each flow may keep two packets however
 *   long the queue is. count stays there, as it counts packets judged between the thresholds.
 * - Strikes are cleared when the flow has no packet left in the view: that is where the sources
 *   delete its state.
 * - A dropped packet leaves no state: N counts flows that have packets queued.
 * - With N = 0 the share would be q, or avg. It is never asked for: qlen is 0 then, below 1 packet.
 * - min is above 0: with 0, maxq would be 0 and every flow would be cut off for good.
 *
 * Fixed point: nothing is rounded but the average (queue_average.h) and the probability
 * (early_drop.h). qlen >= q / N is decided as qlen N >= q, in 64 bits: both factors are below 2^32.
 * The average is scaled / 2^ewma: an integer is >= it if it is >= its ceiling.
 */
#ifndef NET_FRED_H
#define NET_FRED_H

#include <linux/types.h>
#include <net/early_drop.h>
#include <net/queue_average.h>

enum fred_share {
	FRED_SHARE_INSTANT,
	FRED_SHARE_AVERAGE,
	FRED_SHARES
};

struct fred_params {
	struct queue_average_params average;
	struct early_drop_params drop;
	u32 packet;		/* bytes of one packet, not 0 */
	u32 minq;		/* bytes that a flow may queue before it is dropped at random */
	u8 share;		/* enum fred_share */
	bool many_flows;
};

struct fred_vars {
	struct queue_average average;
	struct early_drop_vars drop;
	u32 backlog;		/* bytes */
	u32 flows;		/* with packets in the view */
};

struct fred_flow {
	u32 qlen;		/* bytes */
	u32 strikes;
};

/* What becomes of a packet. */
enum fred_verdict {
	FRED_ENQUEUE,
	FRED_DRAW,		/* undecided: fred_draw() says */
	FRED_EARLY,		/* dropped at random */
	FRED_FORCED,		/* dropped at or above max */
	FRED_STRIKE,		/* dropped because its flow does not adapt */
	FRED_PDROP,		/* dropped for the limit, by who knows the buffer */
	FRED_VERDICTS
};

/* A view that has never held a packet. */
static inline void fred_init(struct fred_vars *v, u64 now)
{
	queue_average_init(&v->average, now);
	early_drop_init(&v->drop);
	v->backlog = 0;
	v->flows = 0;
}

/* qlen >= share */
static inline bool fred_reaches_share(const struct fred_params *p, const struct fred_vars *v,
				      u32 qlen)
{
	u64 whole = v->backlog;

	if (qlen < p->packet)
		return false;
	if (p->share == FRED_SHARE_AVERAGE)
		whole = (v->average.scaled + (1ULL << p->average.ewma) - 1) >> p->average.ewma;
	return (u64)qlen * v->flows >= whole;
}

/* Does the flow keep more than an adaptive one would? */
static inline bool fred_strikes(const struct fred_params *p, const struct fred_vars *v,
				const struct fred_flow *flow, enum early_drop_zone zone)
{
	u64 maxq = zone == EARLY_DROP_ABOVE ? 2 * (u64)p->packet : p->drop.min;

	return flow->qlen >= maxq ||
	       (flow->strikes > 1 && fred_reaches_share(p, v, flow->qlen));
}

/*
 * A packet has arrived in the view, whatever becomes of it. now is looked at only if the view is
 * empty.
 */
static inline void fred_sample(const struct fred_params *p, struct fred_vars *v, u64 now)
{
	queue_average_arrival(&p->average, &v->average, v->backlog, now);
}

/* Judge that packet, which is not in the qlen of its flow yet. */
static inline enum fred_verdict fred_judge(const struct fred_params *p, struct fred_vars *v,
					   struct fred_flow *flow)
{
	enum early_drop_zone zone = early_drop_zone(&p->drop, v->average.scaled);

	if (fred_strikes(p, v, flow, zone)) {
		if (flow->strikes < U32_MAX)
			flow->strikes++;
		return FRED_STRIKE;
	}
	if (zone == EARLY_DROP_BELOW) {
		v->drop.count = -1;
		return FRED_ENQUEUE;
	}
	if (zone == EARLY_DROP_BETWEEN) {
		if (flow->qlen >= p->minq && fred_reaches_share(p, v, flow->qlen))
			return FRED_DRAW;
		if (v->drop.count < EARLY_DROP_MAX_COUNT)
			v->drop.count++;
		return FRED_ENQUEUE;
	}
	if (p->many_flows)
		return FRED_ENQUEUE;
	v->drop.count = 0;
	return FRED_FORCED;
}

/* After FRED_DRAW: FRED_EARLY or FRED_ENQUEUE. rnd is uniform on 32 bits; count is raised here. */
static inline enum fred_verdict fred_draw(const struct fred_params *p, struct fred_vars *v, u32 rnd)
{
	if (early_drop_random(&p->drop, &v->drop, v->average.scaled, rnd))
		return FRED_EARLY;
	return FRED_ENQUEUE;
}

/* A packet of len bytes, not 0, is in the view from now on. */
static inline void fred_enqueue(struct fred_vars *v, struct fred_flow *flow, u32 len)
{
	u32 qlen = flow->qlen;

	if (!qlen)
		v->flows++;
	flow->qlen = qlen + len;
	v->backlog += len;
}

/* It leaves. now is looked at only if it was the last of the view. */
static inline void fred_dequeue(struct fred_vars *v, struct fred_flow *flow, u32 len, u64 now)
{
	flow->qlen -= len;
	if (!flow->qlen) {
		flow->strikes = 0;
		v->flows--;
	}
	v->backlog -= len;
	if (!v->backlog)
		queue_average_empty(&v->average, now);
}

#endif /* NET_FRED_H */
