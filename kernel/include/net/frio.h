/* SPDX-License-Identifier: GPL-2.0 */
/*
 * FRIO: FRED for packets of two drop precedences, IN and OUT, in one FIFO.
 *
 * Source: A. Lo Monaco, A. Feroz and S. Kalyanaraman, "TCP-Friendly Marking for Scalable
 * Best-Effort Services on the Internet", section 5: FRED extended as RIO extends RED, with "a
 * separate set of parameters and queue measures" for IN and for OUT.
 *
 * Each class is judged by fred.h in its own view of the queue, which has all that FRED has:
 * backlog, average, number of flows and count, and of each flow its backlog and strikes.
 *
 *			IN in a view of		OUT in a view of
 *	coupled		the IN packets		all packets	(as RIO)
 *	decoupled	the IN packets		the OUT packets
 *
 * FRED is FRIO when no packet is IN.
 *
 * Decisions:
 * - The limit comes first: what does not fit is dropped as it arrives, whatever its class, and is
 *   neither sampled nor a strike. Then the averages of the views that the packet belongs to, then
 *   the verdict of the view of its class.
 * - Strikes are per flow and class: those that bursts of OUT packets earn must not cost the flow
 *   its retransmissions, which a marker protects as IN.
 * - Averages follow arrivals alone; each view is idle while it is empty.
 * - A flow has a record while it has packets queued. Flows beyond the bound share one more, so that
 *   who opens many flows to exhaust the table gains one fair share by it, and never goes unwatched.
 * - There is no need for more records than flows that the buffer can hold a packet of: of 20 bytes
 *   at least, an IPv4 header. If the size table of a qdisc makes packets smaller, the flows that
 *   find no record share that one too.
 */
#ifndef NET_FRIO_H
#define NET_FRIO_H

#include <linux/compiler.h>
#include <linux/types.h>
#include <net/fred.h>
#include <net/precedence.h>

#define FRIO_PACKET_MIN	20

enum frio_class {
	FRIO_IN,
	FRIO_OUT,
	FRIO_CLASSES
};

enum frio_mode {
	FRIO_COUPLED,
	FRIO_DECOUPLED,
	FRIO_MODES
};

/* What a user may set. */
struct frio_config {
	struct precedence_curve curve[FRIO_CLASSES];
	u32 limit;		/* bytes, not 0 */
	u32 minq;		/* packets; minq * avpkt below 2^32 */
	u32 flows;		/* not 0 */
	u32 avpkt;		/* bytes, not 0 */
	u64 bandwidth;		/* bytes/s, not 0 */
	u8 ewma;		/* at most QUEUE_AVERAGE_MAX_EWMA */
	u8 mode;		/* enum frio_mode */
	u8 share;		/* enum fred_share */
	u8 many_flows;		/* 0, 1 */
	u8 in;			/* codepoint of the IN packets */
};

struct frio_params {
	struct fred_params view[FRIO_CLASSES];
	u32 limit;
	u8 mode;
};

/* view[FRIO_OUT] is of all packets if coupled. */
struct frio_vars {
	struct fred_vars view[FRIO_CLASSES];
};

struct frio_flow {
	struct fred_flow view[FRIO_CLASSES];
};

struct frio_stats {
	struct precedence_count count[FRIO_CLASSES][FRED_VERDICTS];
};

/* A buffer that has never held a packet. */
static inline void frio_init(struct frio_vars *v, u64 now)
{
	fred_init(&v->view[FRIO_IN], now);
	fred_init(&v->view[FRIO_OUT], now);
}

/* Bytes of one class in the buffer. */
static inline u32 frio_class_backlog(const struct frio_params *p, const struct frio_vars *v,
				     enum frio_class class)
{
	u32 view = v->view[class].backlog;

	if (class == FRIO_OUT && p->mode == FRIO_COUPLED)
		return view - v->view[FRIO_IN].backlog;
	return view;
}

static inline bool frio_flow_empty(const struct frio_flow *flow)
{
	return !(flow->view[FRIO_IN].qlen | flow->view[FRIO_OUT].qlen);
}

/* Is an IN packet in the view of OUT as well? */
static inline bool frio_in_both(const struct frio_params *p, enum frio_class class)
{
	return class == FRIO_IN && p->mode == FRIO_COUPLED;
}

/* Will frio_arrival() look at the time? A clock costs more than the decision. */
static inline bool frio_arrival_needs_now(const struct frio_vars *v, enum frio_class class)
{
	/* If IN packets are queued, no view that an IN packet belongs to is empty. */
	return !v->view[class].backlog;
}

/* Will frio_dequeue() of a packet of len bytes? */
static inline bool frio_dequeue_needs_now(const struct frio_vars *v, enum frio_class class, u32 len)
{
	return v->view[class].backlog == len;
}

/* Does a packet of len bytes go into the buffer, which holds backlog of both classes? */
static inline bool frio_fits(const struct frio_params *p, u32 backlog, u32 len)
{
	return (u64)backlog + len <= p->limit;
}

/*
 * A packet that fits arrives. flow is what its flow has, nothing if it has no record. On
 * FRED_ENQUEUE call frio_enqueue(); on FRED_DRAW ask frio_draw() with a random number; else the
 * packet is dropped. Always inlined, because with a constant class half of it is gone.
 */
static __always_inline enum fred_verdict
frio_arrival(const struct frio_params *p, struct frio_vars *v, struct frio_flow *flow,
	     enum frio_class class, u64 now)
{
	if (frio_in_both(p, class))
		fred_sample(&p->view[FRIO_OUT], &v->view[FRIO_OUT], now);
	fred_sample(&p->view[class], &v->view[class], now);
	return fred_judge(&p->view[class], &v->view[class], &flow->view[class]);
}

static inline enum fred_verdict frio_draw(const struct frio_params *p, struct frio_vars *v,
					  enum frio_class class, u32 rnd)
{
	return fred_draw(&p->view[class], &v->view[class], rnd);
}

/* A packet of len bytes, not 0, is queued. */
static inline void frio_enqueue(const struct frio_params *p, struct frio_vars *v,
				struct frio_flow *flow, enum frio_class class, u32 len)
{
	if (frio_in_both(p, class))
		fred_enqueue(&v->view[FRIO_OUT], &flow->view[FRIO_OUT], len);
	fred_enqueue(&v->view[class], &flow->view[class], len);
}

/* A packet leaves; class and len as at its arrival. */
static inline void frio_dequeue(const struct frio_params *p, struct frio_vars *v,
				struct frio_flow *flow, enum frio_class class, u32 len, u64 now)
{
	if (frio_in_both(p, class))
		fred_dequeue(&v->view[FRIO_OUT], &flow->view[FRIO_OUT], len, now);
	fred_dequeue(&v->view[class], &flow->view[class], len, now);
}

static inline void frio_count(struct frio_stats *stats, enum frio_class class,
			      enum fred_verdict verdict, u32 len)
{
	struct precedence_count *count = &stats->count[class][verdict];

	count->packets++;
	count->bytes += len;
}

/* Records that a table needs. */
static inline u32 frio_capacity(const struct frio_config *config)
{
	u32 fit = config->limit / FRIO_PACKET_MIN;

	if (fit < config->flows)
		return fit ? fit : 1;
	return config->flows;
}

static inline void frio_set_params(struct frio_params *p, const struct frio_config *config)
{
	int class;

	for (class = 0; class < FRIO_CLASSES; class++) {
		const struct precedence_curve *curve = &config->curve[class];
		struct fred_params *view = &p->view[class];

		queue_average_set_params(&view->average, config->ewma, config->avpkt,
					 config->bandwidth);
		early_drop_set_params(&view->drop, curve->min, curve->max, curve->probability,
				      EARLY_DROP_UNIFORMIZE_RED, config->ewma);
		view->packet = config->avpkt;
		view->minq = config->minq * config->avpkt;
		view->share = config->share;
		view->many_flows = config->many_flows;
	}
	p->limit = config->limit;
	p->mode = config->mode;
}

/*
 * Go by another configuration from now on; if its mode is another, after frio_change_mode(). The
 * averages stay; those that idle have aged by the old one up to now.
 */
static inline void frio_change_params(struct frio_params *p, struct frio_vars *v,
				      const struct frio_config *config, u64 now)
{
	int i;

	for (i = 0; i < FRIO_CLASSES; i++)
		queue_average_change(&p->view[i].average, &v->view[i].average, v->view[i].backlog,
				     config->ewma, now);
	frio_set_params(p, config);
}

/*
 * The mode changes while packets are queued: the IN packets enter or leave the view of OUT. First
 * frio_change_mode() once, then frio_change_flow_mode() of every flow with packets queued. The
 * average of OUT stays, aged if the view was empty, and goes on to follow what it measures now.
 */
static inline void frio_change_mode(struct frio_params *p, struct frio_vars *v, enum frio_mode to,
				    u64 now)
{
	struct fred_vars *out = &v->view[FRIO_OUT];
	u32 in = v->view[FRIO_IN].backlog;

	p->mode = to;
	if (to == FRIO_COUPLED) {
		if (!out->backlog)
			fred_sample(&p->view[FRIO_OUT], out, now);
		out->backlog += in;
		return;
	}
	out->backlog -= in;
	if (in && !out->backlog)
		queue_average_empty(&out->average, now);
}

static inline void frio_change_flow_mode(struct frio_vars *v, struct frio_flow *flow,
					 enum frio_mode to)
{
	struct fred_flow *out = &flow->view[FRIO_OUT];
	u32 in = flow->view[FRIO_IN].qlen;

	if (!in)
		return;
	if (to == FRIO_COUPLED) {
		if (!out->qlen)
			v->view[FRIO_OUT].flows++;
		out->qlen += in;
		return;
	}
	out->qlen -= in;
	if (out->qlen)
		return;
	out->strikes = 0;
	v->view[FRIO_OUT].flows--;
}

#endif /* NET_FRIO_H */
