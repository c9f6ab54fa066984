/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RIO: RED with IN and OUT packets in one FIFO.
 *
 * Source: D. Clark and W. Fang, "Explicit Allocation of Best-Effort Packet
 * Delivery Service", IEEE/ACM Transactions on Networking, 1998, section III.
 *
 * Two curves of early_drop.h, each with its own count, and three averages of
 * queue_average.h: the backlog of IN, of OUT, and of both. The total is updated on
 * every arrival, a class's own on the arrivals of that class alone. Each has its own
 * idle time, which begins when what it measures becomes empty. A packet is judged
 *
 *			IN by the	OUT by the
 *	coupled		IN average	total average	(RIO, RIO-C)
 *	decoupled	IN average	OUT average	(RIO-D)
 *	wred		total average	total average
 *
 * wred with ewma 0 and uniformize none is what N. Malouch and Z. Liu model (INRIA
 * RR-4469): two curves over one instantaneous backlog.
 *
 * Decisions:
 * - All averages are kept in every mode, so that a change of the mode finds them up
 *   to date. It costs one shift and two additions per packet.
 * - As in RED the early test comes first and the limit last. A packet that passed the
 *   test but does not fit leaves count as the test left it.
 * - What does not fit is dropped as it arrives, whatever its class: no queued OUT
 *   packet makes room for an IN packet. RIO protects IN by the early test alone; where
 *   the buffer is full, its thresholds are wrong, and the papers drop from the tail.
 * - A packet fits if the backlog with it is not more than limit, as in bfifo.
 */
#ifndef NET_RIO_H
#define NET_RIO_H

#include <linux/types.h>
#include <net/early_drop.h>
#include <net/precedence.h>
#include <net/queue_average.h>

enum rio_class {
	RIO_IN,
	RIO_OUT,
	RIO_CLASSES
};

enum rio_mode {
	RIO_COUPLED,
	RIO_DECOUPLED,
	RIO_WRED,
	RIO_MODES
};

enum rio_verdict {
	RIO_ENQUEUE = EARLY_DROP_PASS,
	RIO_EARLY = EARLY_DROP_RANDOM,
	RIO_FORCED = EARLY_DROP_FORCED,
	RIO_PDROP,
	RIO_VERDICTS
};

/* What a user may set. */
struct rio_config {
	struct precedence_curve curve[RIO_CLASSES];
	u32 limit;		/* bytes */
	u32 avpkt;		/* bytes, not 0 */
	u64 bandwidth;		/* bytes/s, not 0 */
	u8 ewma;		/* at most QUEUE_AVERAGE_MAX_EWMA */
	u8 mode;		/* enum rio_mode */
	u8 uniformize;		/* enum early_drop_uniformize */
};

struct rio_class_params {
	struct early_drop_params drop;
	bool by_total;		/* judged by the total average, not by the class's own */
};

struct rio_params {
	struct queue_average_params average;
	struct rio_class_params class[RIO_CLASSES];
	u32 limit;
};

struct rio_class_vars {
	struct queue_average average;
	u32 backlog;		/* bytes */
	struct early_drop_vars drop;
};

/* All that packets change. */
struct rio_vars {
	struct queue_average total;
	struct rio_class_vars class[RIO_CLASSES];
};

struct rio_stats {
	struct precedence_count count[RIO_CLASSES][RIO_VERDICTS];
};

static inline void rio_set_params(struct rio_params *p, const struct rio_config *config)
{
	int i;

	queue_average_set_params(&p->average, config->ewma, config->avpkt, config->bandwidth);
	for (i = 0; i < RIO_CLASSES; i++) {
		const struct precedence_curve *curve = &config->curve[i];

		early_drop_set_params(&p->class[i].drop, curve->min, curve->max,
				      curve->probability, config->uniformize, config->ewma);
	}
	p->class[RIO_IN].by_total = config->mode == RIO_WRED;
	p->class[RIO_OUT].by_total = config->mode != RIO_DECOUPLED;
	p->limit = config->limit;
}

/* An empty queue that has never held a packet. */
static inline void rio_init(struct rio_vars *v, u64 now)
{
	int i;

	queue_average_init(&v->total, now);
	for (i = 0; i < RIO_CLASSES; i++) {
		queue_average_init(&v->class[i].average, now);
		early_drop_init(&v->class[i].drop);
		v->class[i].backlog = 0;
	}
}

static inline u32 rio_backlog(const struct rio_vars *v)
{
	return v->class[RIO_IN].backlog + v->class[RIO_OUT].backlog;
}

/*
 * Go by another configuration from now on. The averages stay; those that idle have aged by the old
 * one up to now.
 */
static inline void rio_change_params(struct rio_params *p, struct rio_vars *v,
				     const struct rio_config *config, u64 now)
{
	int i;

	queue_average_change(&p->average, &v->total, rio_backlog(v), config->ewma, now);
	for (i = 0; i < RIO_CLASSES; i++)
		queue_average_change(&p->average, &v->class[i].average, v->class[i].backlog,
				     config->ewma, now);
	rio_set_params(p, config);
}

/*
 * A packet arrives: update the averages and return, scaled, the one that it is judged by.
 * now is looked at only if the class has no backlog.
 */
static inline u64 rio_arrival(const struct rio_params *p, struct rio_vars *v,
			      enum rio_class class, u64 now)
{
	struct rio_class_vars *own = &v->class[class];

	queue_average_arrival(&p->average, &v->total, rio_backlog(v), now);
	queue_average_arrival(&p->average, &own->average, own->backlog, now);
	return p->class[class].by_total ? v->total.scaled : own->average.scaled;
}

/* Whether the decision by that average takes a random number. */
static inline bool rio_draws(const struct rio_params *p, const struct rio_vars *v,
			     enum rio_class class, u64 average)
{
	return early_drop_draws(&p->class[class].drop, &v->class[class].drop, average);
}

/* Decide on that packet of len bytes; on RIO_ENQUEUE it counts as queued. */
static inline enum rio_verdict rio_decide(const struct rio_params *p, struct rio_vars *v,
					  enum rio_class class, u64 average, u32 len, u32 rnd)
{
	struct rio_class_vars *own = &v->class[class];
	enum early_drop_verdict early = early_drop_decide(&p->class[class].drop, &own->drop,
							  average, rnd);

	if (early != EARLY_DROP_PASS)
		return (enum rio_verdict)early;
	if ((u64)rio_backlog(v) + len > p->limit)
		return RIO_PDROP;
	own->backlog += len;
	return RIO_ENQUEUE;
}

/* A packet of len bytes leaves; true if its class is empty now: call rio_empty. */
static inline bool rio_departure(struct rio_vars *v, enum rio_class class, u32 len)
{
	v->class[class].backlog -= len;
	return !v->class[class].backlog;
}

/* The last packet of the class has left. */
static inline void rio_empty(struct rio_vars *v, enum rio_class class, u64 now)
{
	queue_average_empty(&v->class[class].average, now);
	if (!rio_backlog(v))
		queue_average_empty(&v->total, now);
}

static inline void rio_count(struct rio_stats *stats, enum rio_class class,
			     enum rio_verdict verdict, u32 len)
{
	struct precedence_count *count = &stats->count[class][verdict];

	count->packets++;
	count->bytes += len;
}

#endif /* NET_RIO_H */
