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

#include <compat.h>
#include <net/frio.h>
#include <net/frio_flows.h>
#include <net/packet_flow.h>
#include <uapi/frio.h>

#include "packet.h"
#include "precedence.h"

#define FRIO_DEFAULT_FLOWS	65536
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
	PRECEDENCE_POLICY,
	[TCA_FRIO_SHARE] = { .type = NLA_U8 },
	[TCA_FRIO_MANY_FLOWS] = { .type = NLA_U8 },
	[TCA_FRIO_MINQ] = { .type = NLA_U32 },
	[TCA_FRIO_FLOWS] = { .type = NLA_U32 },
};

static void frio_read(struct frio_config *config, struct nlattr **tb)
{
	precedence_read_u32(&config->limit, tb[TCA_PRECEDENCE_LIMIT]);
	precedence_read_curves(&config->curve[FRIO_IN], &config->curve[FRIO_OUT], tb);
	precedence_read_u8(&config->mode, tb[TCA_PRECEDENCE_MODE]);
	precedence_read_u8(&config->share, tb[TCA_FRIO_SHARE]);
	precedence_read_u8(&config->many_flows, tb[TCA_FRIO_MANY_FLOWS]);
	precedence_read_u32(&config->minq, tb[TCA_FRIO_MINQ]);
	precedence_read_u32(&config->flows, tb[TCA_FRIO_FLOWS]);
	precedence_read_u8(&config->ewma, tb[TCA_PRECEDENCE_EWMA]);
	precedence_read_u32(&config->avpkt, tb[TCA_PRECEDENCE_AVPKT]);
	precedence_read_u64(&config->bandwidth, tb[TCA_PRECEDENCE_BANDWIDTH]);
	precedence_read_u8(&config->in, tb[TCA_PRECEDENCE_IN]);
}

static int frio_check(const struct frio_config *config, struct nlattr **tb,
		      struct netlink_ext_ack *extack)
{
	const struct precedence_curve *in = &config->curve[FRIO_IN];
	const struct precedence_curve *out = &config->curve[FRIO_OUT];

	if (!in->min)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_IN_MIN],
					 "in_min must be above 0: it bounds one flow's queue");
	if (!out->min)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_OUT_MIN],
					 "out_min must be above 0: it bounds one flow's queue");
	if (config->mode >= FRIO_MODES)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_MODE],
					 "mode must be coupled (0) or decoupled (1)");
	if (config->share >= FRED_SHARES)
		return PRECEDENCE_REFUSE(extack, tb[TCA_FRIO_SHARE],
					 "share must be instant (0) or average (1)");
	if (config->many_flows > 1)
		return PRECEDENCE_REFUSE(extack, tb[TCA_FRIO_MANY_FLOWS],
					 "many_flows must be off (0) or on (1)");
	if (config->minq > TC_FRIO_MINQ_MAX)
		return PRECEDENCE_REFUSE(extack, tb[TCA_FRIO_MINQ],
					 "minq must be from 0 to 65535 packets");
	if (!config->flows || config->flows > TC_FRIO_FLOWS_MAX)
		return PRECEDENCE_REFUSE(extack, tb[TCA_FRIO_FLOWS],
					 "flows must be from 1 to 1048576");
	if (!config->avpkt || config->avpkt > TC_FRIO_AVPKT_MAX)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_AVPKT],
					 "avpkt must be from 1 to 65535 bytes");
	return precedence_check_curves(in, out, tb, extack);
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
	u64 now = ktime_get_ns();

	if (config->mode != q->params.mode)
		frio_flows_change_mode(&q->flows, &q->params, &q->vars, config->mode, now);
	frio_change_params(&q->params, &q->vars, config, now);
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
	err = precedence_check(tb, extack) ?: frio_check(&config, tb, extack);
	if (err)
		return err;
	capacity = frio_capacity(&config);
	if (!q->flows.table.records || capacity > frio_flows_capacity(&q->flows)) {
		memory = kvzalloc(frio_flows_bytes(capacity), GFP_KERNEL_ACCOUNT);
		if (!memory) {
			NL_SET_ERR_MSG(extack, "no memory for the records of flows: try fewer");
			return -ENOMEM;
		}
	}

	sch_tree_lock(sch);
	if (memory)
		memory = frio_use_memory(q, memory, capacity);
	frio_apply(q, &config);
	if (tb[TCA_PRECEDENCE_SEED]) {
		q->seeded = true;
		q->seed = nla_get_u64(tb[TCA_PRECEDENCE_SEED]);
		prandom_seed_state(&q->random, q->seed);
	}
	sch_tree_unlock(sch);
	kvfree(memory);
	return 0;
}

static int frio_init_qdisc(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	int err = precedence_require(opt, extack);

	if (err)
		return err;
	q->config.avpkt = PRECEDENCE_DEFAULT_AVPKT;
	q->config.bandwidth = PRECEDENCE_DEFAULT_BANDWIDTH;
	q->config.ewma = PRECEDENCE_DEFAULT_EWMA;
	q->config.flows = FRIO_DEFAULT_FLOWS;
	q->config.in = PRECEDENCE_DEFAULT_IN;
	q->config.minq = FRIO_DEFAULT_MINQ;
	q->config.mode = FRIO_COUPLED;
	q->config.share = FRED_SHARE_INSTANT;
	q->params.mode = q->config.mode;
	frio_init(&q->vars, ktime_get_ns());
	prandom_seed_state(&q->random, get_random_u64());
	return frio_change(sch, opt, extack);
}

static int frio_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start_noflag(skb, TCA_OPTIONS);
	const struct frio_config *config = &q->config;

	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_PRECEDENCE_LIMIT, config->limit) ||
	    precedence_put_curves(skb, &config->curve[FRIO_IN], &config->curve[FRIO_OUT]) ||
	    nla_put_u8(skb, TCA_PRECEDENCE_MODE, config->mode) ||
	    nla_put_u8(skb, TCA_FRIO_SHARE, config->share) ||
	    nla_put_u8(skb, TCA_FRIO_MANY_FLOWS, config->many_flows) ||
	    nla_put_u32(skb, TCA_FRIO_MINQ, config->minq) ||
	    nla_put_u32(skb, TCA_FRIO_FLOWS, config->flows) ||
	    nla_put_u8(skb, TCA_PRECEDENCE_EWMA, config->ewma) ||
	    nla_put_u32(skb, TCA_PRECEDENCE_AVPKT, config->avpkt) ||
	    nla_put_u64_64bit(skb, TCA_PRECEDENCE_BANDWIDTH, config->bandwidth,
			      TCA_PRECEDENCE_PAD) ||
	    nla_put_u8(skb, TCA_PRECEDENCE_IN, config->in) ||
	    (q->seeded &&
	     nla_put_u64_64bit(skb, TCA_PRECEDENCE_SEED, q->seed, TCA_PRECEDENCE_PAD))) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

static void frio_class_xstats(struct tc_frio_class_xstats *x, const struct frio_sched_data *q,
			      enum frio_class class)
{
	const struct precedence_count *count = q->stats.count[class];
	const struct fred_vars *view = &q->vars.view[class];

	x->enqueued = precedence_put_count(&count[FRED_ENQUEUE]);
	x->early = precedence_put_count(&count[FRED_EARLY]);
	x->forced = precedence_put_count(&count[FRED_FORCED]);
	x->strike = precedence_put_count(&count[FRED_STRIKE]);
	x->pdrop = precedence_put_count(&count[FRED_PDROP]);
	x->backlog = frio_class_backlog(&q->params, &q->vars, class);
	x->average = queue_average_bytes(&q->params.view[class].average, &view->average);
	x->flows_now = view->flows;
}

static int frio_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct frio_sched_data *q = qdisc_priv(sch);
	struct tc_frio_xstats x = {};

	sch_tree_lock(sch);	/* one moment for all of them */
	frio_class_xstats(&x.in, q, FRIO_IN);
	frio_class_xstats(&x.out, q, FRIO_OUT);
	x.overflow = q->flows.overflowed;
	x.flows_now = frio_flows_count(&q->flows);
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
	BUILD_BUG_ON((int)TC_PRECEDENCE_COUPLED != FRIO_COUPLED);
	BUILD_BUG_ON((int)TC_PRECEDENCE_DECOUPLED != FRIO_DECOUPLED);
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
