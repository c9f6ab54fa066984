// SPDX-License-Identifier: GPL-2.0
/*
 * The qdisc frio: include/net/frio.h says what it does. Here are its FIFO, its flows and
 * codepoints, clock and random numbers, and netlink.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/timekeeping.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include <net/frio.h>
#include <net/frio_flows.h>
#include <net/packet_flow.h>
#include <uapi/frio.h>

#include "compat.h"
#include "packet.h"

#define FRIO_DEFAULT_AVPKT	1000
#define FRIO_DEFAULT_BANDWIDTH	1250000		/* 10 Mbit/s */
#define FRIO_DEFAULT_EWMA	9
#define FRIO_DEFAULT_FLOWS	65536
#define FRIO_DEFAULT_IN		10		/* AF11 */
#define FRIO_DEFAULT_MINQ	2

struct frio_sched_data {
	struct frio_vars vars ____cacheline_aligned;
	struct rnd_state random;
	struct frio_flows flows;
	struct frio_params params;
	bool seeded;			/* by the user */
	struct frio_stats stats;
	struct frio_config config;
	u64 seed;
};

/* What is known of a queued packet: its headers may be rewritten meanwhile. */
struct frio_skb_cb {
	u32 record;
	u32 class;			/* enum frio_class */
};

static struct frio_skb_cb *frio_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct frio_skb_cb));
	return (struct frio_skb_cb *)qdisc_skb_cb(skb)->data;
}

/*
 * The way of most packets is inlined with a constant class, and calls nothing but at its end: else
 * a third of the instructions would go into addresses and into saving registers.
 */
static __always_inline int frio_keep(struct sk_buff *skb, struct Qdisc *sch, u32 record,
				     const enum frio_class class)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	u32 len = qdisc_pkt_len(skb);

	frio_count(&q->stats, class, FRED_ENQUEUE, len);
	frio_enqueue(&q->params, &q->vars, frio_flow(&q->flows, record), class, len);
	frio_skb_cb(skb)->record = record;
	frio_skb_cb(skb)->class = class;
	return qdisc_enqueue_tail(skb, sch);
}

static noinline int frio_drop(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free,
			      u32 record, enum frio_class class, enum fred_verdict verdict)
{
	struct frio_sched_data *q = qdisc_priv(sch);

	frio_count(&q->stats, class, verdict, qdisc_pkt_len(skb));
	frio_flows_release(&q->flows, record);
	if (verdict == FRED_PDROP)
		return qdisc_drop(skb, sch, to_free);
	qdisc_qstats_overlimit(sch);
	qdisc_drop(skb, sch, to_free);
	return NET_XMIT_CN;
}

static __always_inline int frio_decide(struct sk_buff *skb, struct Qdisc *sch,
				       struct sk_buff **to_free, u32 record,
				       const enum frio_class class)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	u32 rnd = prandom_u32_state(&q->random);
	enum fred_verdict verdict = frio_draw(&q->params, &q->vars, class, rnd);

	if (verdict == FRED_ENQUEUE)
		return frio_keep(skb, sch, record, class);
	return frio_drop(skb, sch, to_free, record, class, verdict);
}

static noinline int frio_decide_in(struct sk_buff *skb, struct Qdisc *sch,
				   struct sk_buff **to_free, u32 record)
{
	return frio_decide(skb, sch, to_free, record, FRIO_IN);
}

static noinline int frio_decide_out(struct sk_buff *skb, struct Qdisc *sch,
				    struct sk_buff **to_free, u32 record)
{
	return frio_decide(skb, sch, to_free, record, FRIO_OUT);
}

/* Now is looked at only in a view that is empty. */
static __always_inline int frio_judge(struct sk_buff *skb, struct Qdisc *sch,
				      struct sk_buff **to_free, u32 record,
				      const enum frio_class class, u64 now)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct frio_flow *flow = frio_flow(&q->flows, record);
	enum fred_verdict verdict = frio_arrival(&q->params, &q->vars, flow, class, now);

	if (likely(verdict == FRED_ENQUEUE))
		return frio_keep(skb, sch, record, class);
	if (verdict != FRED_DRAW)
		return frio_drop(skb, sch, to_free, record, class, verdict);
	if (class == FRIO_IN)
		return frio_decide_in(skb, sch, to_free, record);
	return frio_decide_out(skb, sch, to_free, record);
}

static noinline int frio_judge_idle(struct sk_buff *skb, struct Qdisc *sch,
				    struct sk_buff **to_free, u32 record, enum frio_class class)
{
	return frio_judge(skb, sch, to_free, record, class, ktime_get_ns());
}

static __always_inline int frio_take(struct sk_buff *skb, struct Qdisc *sch,
				     struct sk_buff **to_free, u32 record,
				     const enum frio_class class)
{
	struct frio_sched_data *q = qdisc_priv(sch);

	if (unlikely(!frio_fits(&q->params, sch->qstats.backlog, qdisc_pkt_len(skb))))
		return frio_drop(skb, sch, to_free, record, class, FRED_PDROP);
	if (unlikely(frio_arrival_needs_now(&q->vars, class)))
		return frio_judge_idle(skb, sch, to_free, record, class);
	return frio_judge(skb, sch, to_free, record, class, 0);
}

static noinline int frio_take_in(struct sk_buff *skb, struct Qdisc *sch,
				 struct sk_buff **to_free, u32 record)
{
	return frio_take(skb, sch, to_free, record, FRIO_IN);
}

static noinline int frio_take_out(struct sk_buff *skb, struct Qdisc *sch,
				  struct sk_buff **to_free, u32 record)
{
	return frio_take(skb, sch, to_free, record, FRIO_OUT);
}

/* What is not plain: another header, a fragment, not in one piece; or not even IP, which is OUT. */
static noinline int frio_enqueue_any(struct sk_buff *skb, struct Qdisc *sch,
				     struct sk_buff **to_free)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct packet_info info;
	u32 record;

	if (packet_read(skb, &info) == PACKET_UNPARSEABLE) {
		flow_key_none(&info.key);
		record = frio_flows_get(&q->flows, &info.key);
		return frio_take_out(skb, sch, to_free, record);
	}
	record = frio_flows_get(&q->flows, &info.key);
	if (info.dscp == q->config.in)
		return frio_take_in(skb, sch, to_free, record);
	return frio_take_out(skb, sch, to_free, record);
}

static int frio_enqueue_skb(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	u32 offset = skb_network_offset(skb), linear = skb_headlen(skb), record;
	struct packet_plain plain;

	if (skb->protocol != htons(ETH_P_IP) || offset >= linear ||
	    !packet_flow_plain(&plain, skb->data + offset, linear - offset))
		return frio_enqueue_any(skb, sch, to_free);
	record = frio_flows_get_ipv4(&q->flows, &plain.flow);
	if (plain.dscp == q->config.in)
		return frio_take_in(skb, sch, to_free, record);
	return frio_take_out(skb, sch, to_free, record);
}

static __always_inline void frio_leave(struct frio_sched_data *q, const struct sk_buff *skb,
				       const enum frio_class class, u64 now)
{
	u32 record = frio_skb_cb(skb)->record;

	frio_dequeue(&q->params, &q->vars, frio_flow(&q->flows, record), class,
		     qdisc_pkt_len(skb), now);
	frio_flows_release(&q->flows, record);
}

static noinline struct sk_buff *frio_leave_idle(struct frio_sched_data *q, struct sk_buff *skb)
{
	frio_leave(q, skb, frio_skb_cb(skb)->class, ktime_get_ns());
	return skb;
}

static struct sk_buff *frio_dequeue_skb(struct Qdisc *sch)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = qdisc_dequeue_head(sch);
	enum frio_class class;

	if (!skb)
		return NULL;
	class = frio_skb_cb(skb)->class;
	if (unlikely(frio_dequeue_needs_now(&q->vars, class, qdisc_pkt_len(skb))))
		return frio_leave_idle(q, skb);
	if (class == FRIO_IN)
		frio_leave(q, skb, FRIO_IN, 0);
	else
		frio_leave(q, skb, FRIO_OUT, 0);
	return skb;
}

static void frio_reset(struct Qdisc *sch)
{
	struct frio_sched_data *q = qdisc_priv(sch);

	qdisc_reset_queue(sch);
	frio_init(&q->vars, ktime_get_ns());
	if (q->flows.table.records)	/* not if init has failed */
		frio_flows_clear(&q->flows);
}

static void frio_destroy(struct Qdisc *sch)
{
	struct frio_sched_data *q = qdisc_priv(sch);

	kvfree(q->flows.table.records);
}

static const struct nla_policy frio_policy[TCA_FRIO_MAX + 1] = {
	[TCA_FRIO_LIMIT] = { .type = NLA_U32 },
	[TCA_FRIO_IN_MIN] = { .type = NLA_U32 },
	[TCA_FRIO_IN_MAX] = { .type = NLA_U32 },
	[TCA_FRIO_IN_PROBABILITY] = { .type = NLA_U32 },
	[TCA_FRIO_OUT_MIN] = { .type = NLA_U32 },
	[TCA_FRIO_OUT_MAX] = { .type = NLA_U32 },
	[TCA_FRIO_OUT_PROBABILITY] = { .type = NLA_U32 },
	[TCA_FRIO_MODE] = { .type = NLA_U8 },
	[TCA_FRIO_SHARE] = { .type = NLA_U8 },
	[TCA_FRIO_MANY_FLOWS] = { .type = NLA_U8 },
	[TCA_FRIO_MINQ] = { .type = NLA_U32 },
	[TCA_FRIO_FLOWS] = { .type = NLA_U32 },
	[TCA_FRIO_EWMA] = { .type = NLA_U8 },
	[TCA_FRIO_AVPKT] = { .type = NLA_U32 },
	[TCA_FRIO_BANDWIDTH] = { .type = NLA_U64 },
	[TCA_FRIO_IN] = { .type = NLA_U8 },
	[TCA_FRIO_SEED] = { .type = NLA_U64 },
};

static void frio_read_u32(u32 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u32(attr);
}

static void frio_read_u8(u8 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u8(attr);
}

static void frio_read(struct frio_config *config, struct nlattr **tb)
{
	struct frio_curve *in = &config->curve[FRIO_IN], *out = &config->curve[FRIO_OUT];

	frio_read_u32(&config->limit, tb[TCA_FRIO_LIMIT]);
	frio_read_u32(&in->min, tb[TCA_FRIO_IN_MIN]);
	frio_read_u32(&in->max, tb[TCA_FRIO_IN_MAX]);
	frio_read_u32(&in->probability, tb[TCA_FRIO_IN_PROBABILITY]);
	frio_read_u32(&out->min, tb[TCA_FRIO_OUT_MIN]);
	frio_read_u32(&out->max, tb[TCA_FRIO_OUT_MAX]);
	frio_read_u32(&out->probability, tb[TCA_FRIO_OUT_PROBABILITY]);
	frio_read_u8(&config->mode, tb[TCA_FRIO_MODE]);
	frio_read_u8(&config->share, tb[TCA_FRIO_SHARE]);
	frio_read_u8(&config->many_flows, tb[TCA_FRIO_MANY_FLOWS]);
	frio_read_u32(&config->minq, tb[TCA_FRIO_MINQ]);
	frio_read_u32(&config->flows, tb[TCA_FRIO_FLOWS]);
	frio_read_u8(&config->ewma, tb[TCA_FRIO_EWMA]);
	frio_read_u32(&config->avpkt, tb[TCA_FRIO_AVPKT]);
	if (tb[TCA_FRIO_BANDWIDTH])
		config->bandwidth = nla_get_u64(tb[TCA_FRIO_BANDWIDTH]);
	frio_read_u8(&config->in, tb[TCA_FRIO_IN]);
}

/* Refuse with a message, pointing to the attribute if the request has it. */
#define FRIO_REFUSE(extack, attr, message)					\
	({									\
		NL_SET_ERR_MSG_ATTR(extack, attr, message);			\
		-EINVAL;							\
	})

static int frio_check_curves(const struct frio_curve *curve, struct nlattr **tb,
			     struct netlink_ext_ack *extack)
{
	if (!curve[FRIO_IN].min)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_IN_MIN],
				   "in_min must be above 0: it bounds what one flow may queue");
	if (curve[FRIO_IN].min > curve[FRIO_IN].max)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_IN_MIN], "in_min must not exceed in_max");
	if (!curve[FRIO_OUT].min)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_OUT_MIN],
				   "out_min must be above 0: it bounds what one flow may queue");
	if (curve[FRIO_OUT].min > curve[FRIO_OUT].max)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_OUT_MIN], "out_min must not exceed out_max");
	return 0;
}

static int frio_check(const struct frio_config *config, struct nlattr **tb,
		      struct netlink_ext_ack *extack)
{
	if (!config->limit)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_LIMIT], "limit must be above 0");
	if (config->mode >= FRIO_MODES)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_MODE],
				   "mode must be coupled (0) or decoupled (1)");
	if (config->share >= FRED_SHARES)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_SHARE],
				   "share must be instant (0) or average (1)");
	if (config->many_flows > 1)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_MANY_FLOWS],
				   "many_flows must be off (0) or on (1)");
	if (config->minq > TC_FRIO_MINQ_MAX)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_MINQ],
				   "minq must be from 0 to 65535 packets");
	if (!config->flows || config->flows > TC_FRIO_FLOWS_MAX)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_FLOWS], "flows must be from 1 to 1048576");
	if (config->ewma > QUEUE_AVERAGE_MAX_EWMA)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_EWMA], "ewma must be from 0 to 31");
	if (!config->avpkt || config->avpkt > TC_FRIO_AVPKT_MAX)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_AVPKT],
				   "avpkt must be from 1 to 65535 bytes");
	if (!config->bandwidth)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_BANDWIDTH], "bandwidth must be above 0");
	if (config->in > 63)
		return FRIO_REFUSE(extack, tb[TCA_FRIO_IN], "in must be a codepoint from 0 to 63");
	return frio_check_curves(config->curve, tb, extack);
}

/* Returns the memory that is no longer used, if there is any. */
static void *frio_use_memory(struct frio_sched_data *q, void *memory, u32 capacity)
{
	if (q->flows.table.records)
		return frio_flows_move(&q->flows, memory, capacity);
	frio_flows_init(&q->flows, memory, capacity, get_random_u64());
	return NULL;
}

/*
 * Packets, averages, counts and flows stay; so do packets beyond a smaller limit and flows beyond a
 * smaller bound, until they have left. What the request does not name keeps its value.
 */
static void frio_apply(struct frio_sched_data *q, const struct frio_config *config)
{
	if (config->mode != q->params.mode)
		frio_flows_change_mode(&q->flows, &q->params, &q->vars, config->mode,
				       ktime_get_ns());
	frio_rescale(&q->vars, q->config.ewma, config->ewma);
	frio_set_params(&q->params, config);
	frio_flows_set_bound(&q->flows, config->flows);
	q->config = *config;
}

static int frio_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct frio_config config = q->config;
	struct nlattr *tb[TCA_FRIO_MAX + 1];
	void *memory = NULL;
	u32 capacity;
	int err;

	err = nla_parse_nested(tb, TCA_FRIO_MAX, opt, frio_policy, extack);
	if (err)
		return err;
	frio_read(&config, tb);
	err = frio_check(&config, tb, extack);
	if (err)
		return err;
	capacity = frio_capacity(&config);
	if (!q->flows.table.records || capacity > frio_flows_capacity(&q->flows)) {
		memory = kvzalloc(frio_flows_bytes(capacity), GFP_KERNEL);
		if (!memory) {
			NL_SET_ERR_MSG(extack, "no memory for the records of flows: try fewer");
			return -ENOMEM;
		}
	}

	sch_tree_lock(sch);
	if (memory)
		memory = frio_use_memory(q, memory, capacity);
	frio_apply(q, &config);
	if (tb[TCA_FRIO_SEED]) {
		q->seeded = true;
		q->seed = nla_get_u64(tb[TCA_FRIO_SEED]);
		prandom_seed_state(&q->random, q->seed);
	}
	sch_tree_unlock(sch);
	kvfree(memory);
	return 0;
}

static int frio_require(struct nlattr *opt, struct netlink_ext_ack *extack)
{
	if (!opt || !nla_find_nested(opt, TCA_FRIO_LIMIT))
		NL_SET_ERR_MSG(extack, "limit is required");
	else if (!opt || !nla_find_nested(opt, TCA_FRIO_IN_MIN))
		NL_SET_ERR_MSG(extack, "in_min is required");
	else if (!opt || !nla_find_nested(opt, TCA_FRIO_IN_MAX))
		NL_SET_ERR_MSG(extack, "in_max is required");
	else if (!opt || !nla_find_nested(opt, TCA_FRIO_IN_PROBABILITY))
		NL_SET_ERR_MSG(extack, "in_probability is required");
	else if (!opt || !nla_find_nested(opt, TCA_FRIO_OUT_MIN))
		NL_SET_ERR_MSG(extack, "out_min is required");
	else if (!opt || !nla_find_nested(opt, TCA_FRIO_OUT_MAX))
		NL_SET_ERR_MSG(extack, "out_max is required");
	else if (!opt || !nla_find_nested(opt, TCA_FRIO_OUT_PROBABILITY))
		NL_SET_ERR_MSG(extack, "out_probability is required");
	else
		return 0;
	return -EINVAL;
}

static int frio_init_qdisc(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	int err = frio_require(opt, extack);

	if (err)
		return err;
	q->config.avpkt = FRIO_DEFAULT_AVPKT;
	q->config.bandwidth = FRIO_DEFAULT_BANDWIDTH;
	q->config.ewma = FRIO_DEFAULT_EWMA;
	q->config.flows = FRIO_DEFAULT_FLOWS;
	q->config.in = FRIO_DEFAULT_IN;
	q->config.minq = FRIO_DEFAULT_MINQ;
	q->config.mode = FRIO_COUPLED;
	q->config.share = FRED_SHARE_INSTANT;
	q->params.mode = q->config.mode;
	frio_init(&q->vars, ktime_get_ns());
	prandom_seed_state(&q->random, get_random_u64());
	return frio_change(sch, opt, extack);
}

static int frio_put_curves(struct sk_buff *skb, const struct frio_curve *curve)
{
	return nla_put_u32(skb, TCA_FRIO_IN_MIN, curve[FRIO_IN].min) ||
	       nla_put_u32(skb, TCA_FRIO_IN_MAX, curve[FRIO_IN].max) ||
	       nla_put_u32(skb, TCA_FRIO_IN_PROBABILITY, curve[FRIO_IN].probability) ||
	       nla_put_u32(skb, TCA_FRIO_OUT_MIN, curve[FRIO_OUT].min) ||
	       nla_put_u32(skb, TCA_FRIO_OUT_MAX, curve[FRIO_OUT].max) ||
	       nla_put_u32(skb, TCA_FRIO_OUT_PROBABILITY, curve[FRIO_OUT].probability);
}

static int frio_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start_noflag(skb, TCA_OPTIONS);
	const struct frio_config *config = &q->config;

	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_FRIO_LIMIT, config->limit) ||
	    frio_put_curves(skb, config->curve) ||
	    nla_put_u8(skb, TCA_FRIO_MODE, config->mode) ||
	    nla_put_u8(skb, TCA_FRIO_SHARE, config->share) ||
	    nla_put_u8(skb, TCA_FRIO_MANY_FLOWS, config->many_flows) ||
	    nla_put_u32(skb, TCA_FRIO_MINQ, config->minq) ||
	    nla_put_u32(skb, TCA_FRIO_FLOWS, config->flows) ||
	    nla_put_u8(skb, TCA_FRIO_EWMA, config->ewma) ||
	    nla_put_u32(skb, TCA_FRIO_AVPKT, config->avpkt) ||
	    nla_put_u64_64bit(skb, TCA_FRIO_BANDWIDTH, config->bandwidth, TCA_FRIO_PAD) ||
	    nla_put_u8(skb, TCA_FRIO_IN, config->in) ||
	    (q->seeded && nla_put_u64_64bit(skb, TCA_FRIO_SEED, q->seed, TCA_FRIO_PAD))) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

static void frio_class_xstats(struct tc_frio_class_xstats *x, const struct frio_sched_data *q,
			      enum frio_class class)
{
	const struct frio_count *count = q->stats.count[class];
	const struct fred_vars *view = &q->vars.view[class];

	x->enqueued = count[FRED_ENQUEUE].packets;
	x->enqueued_bytes = count[FRED_ENQUEUE].bytes;
	x->early = count[FRED_EARLY].packets;
	x->early_bytes = count[FRED_EARLY].bytes;
	x->forced = count[FRED_FORCED].packets;
	x->forced_bytes = count[FRED_FORCED].bytes;
	x->strike = count[FRED_STRIKE].packets;
	x->strike_bytes = count[FRED_STRIKE].bytes;
	x->pdrop = count[FRED_PDROP].packets;
	x->pdrop_bytes = count[FRED_PDROP].bytes;
	x->backlog = frio_class_backlog(&q->params, &q->vars, class);
	x->average = queue_average_bytes(&q->params.view[class].average, &view->average);
	x->flows = view->flows;
}

static int frio_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct tc_frio_xstats x = {};

	sch_tree_lock(sch);	/* one moment for all of them */
	frio_class_xstats(&x.in, q, FRIO_IN);
	frio_class_xstats(&x.out, q, FRIO_OUT);
	x.overflow = q->flows.overflowed;
	x.flows = frio_flows_count(&q->flows);
	sch_tree_unlock(sch);
	return gnet_stats_copy_app(d, &x, sizeof(x));
}

static struct Qdisc_ops frio_qdisc_ops __read_mostly = {
	.id = "frio",
	.priv_size = sizeof(struct frio_sched_data),
	.enqueue = frio_enqueue_skb,
	.dequeue = frio_dequeue_skb,
	.peek = qdisc_peek_head,
	.init = frio_init_qdisc,
	.reset = frio_reset,
	.destroy = frio_destroy,
	.change = frio_change,
	.dump = frio_dump,
	.dump_stats = frio_dump_stats,
	.owner = THIS_MODULE,
};

static int __init frio_module_init(void)
{
	BUILD_BUG_ON(sizeof(struct frio_record) != 64);
	BUILD_BUG_ON((int)TC_FRIO_COUPLED != FRIO_COUPLED);
	BUILD_BUG_ON((int)TC_FRIO_DECOUPLED != FRIO_DECOUPLED);
	BUILD_BUG_ON((int)TC_FRIO_SHARE_INSTANT != FRED_SHARE_INSTANT);
	BUILD_BUG_ON((int)TC_FRIO_SHARE_AVERAGE != FRED_SHARE_AVERAGE);
	return register_qdisc(&frio_qdisc_ops);
}

static void __exit frio_module_exit(void)
{
	unregister_qdisc(&frio_qdisc_ops);
}

module_init(frio_module_init);
module_exit(frio_module_exit);

MODULE_ALIAS_NET_SCH("frio");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Flow Random Early Drop with IN and OUT packets (FRIO)");
