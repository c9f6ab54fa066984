// SPDX-License-Identifier: GPL-2.0
/*
 * The qdisc rio: include/net/rio.h says what it does. Here are its FIFO, its codepoints,
 * clock and random numbers, and netlink.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <linux/timekeeping.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>

#include <compat.h>
#include <net/rio.h>
#include <uapi/rio.h>

#include "precedence.h"

struct rio_sched_data {
	struct rio_vars vars ____cacheline_aligned;
	struct rnd_state random;
	struct rio_params params;
	u8 in;				/* codepoint */
	bool seeded;			/* by the user */
	struct rio_stats stats;
	struct rio_config config;
	u64 seed;
};

/* What must be remembered of a queued packet: its headers may be rewritten meanwhile. */
struct rio_skb_cb {
	enum rio_class class;
};

static struct rio_skb_cb *rio_skb_cb(const struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct rio_skb_cb));
	return (struct rio_skb_cb *)qdisc_skb_cb(skb)->data;
}

/*
 * A header beyond the linear part; -1 for what is not IP, such as a VLAN tag that stands in the
 * packet still (one that a device took out is no hindrance).
 */
static noinline int rio_read_dscp(const struct sk_buff *skb)
{
	u8 copy[2];
	const u8 *ip = skb_header_pointer(skb, skb_network_offset(skb), sizeof(copy), copy);
	int version = ip ? ip[0] >> 4 : 0;

	if (version == 4 && skb->protocol == htons(ETH_P_IP))
		return ip[1] >> 2;
	if (version == 6 && skb->protocol == htons(ETH_P_IPV6))
		return (ip[0] & 0x0f) << 2 | ip[1] >> 6;
	return -1;
}

/* IN is the one codepoint; everything else is OUT, and so is what is not IP. */
static enum rio_class rio_classify(const struct rio_sched_data *q, const struct sk_buff *skb)
{
	const u8 *ip = skb_network_header(skb);
	int dscp;

	if (likely(skb->protocol == htons(ETH_P_IP) && ip + 2 <= skb_tail_pointer(skb)))
		dscp = ip[1] >> 2;
	else
		dscp = rio_read_dscp(skb);
	return dscp == q->in ? RIO_IN : RIO_OUT;
}

/* Compiled for each class: with its addresses constant it takes a tenth less. */
static __always_inline int rio_enqueue_class(struct sk_buff *skb, struct Qdisc *sch,
					     struct sk_buff **to_free, enum rio_class class)
{
	struct rio_sched_data *q = qdisc_priv(sch);
	u64 now = q->vars.class[class].backlog ? 0 : ktime_get_ns();
	u64 average = rio_arrival(&q->params, &q->vars, class, now);
	bool draws = rio_draws(&q->params, &q->vars, class, average);
	u32 rnd = draws ? prandom_u32_state(&q->random) : 0;
	u32 len = qdisc_pkt_len(skb);
	enum rio_verdict verdict = rio_decide(&q->params, &q->vars, class, average, len, rnd);

	rio_count(&q->stats, class, verdict, len);
	if (likely(verdict == RIO_ENQUEUE)) {
		rio_skb_cb(skb)->class = class;
		return qdisc_enqueue_tail(skb, sch);
	}
	if (verdict == RIO_PDROP)
		return qdisc_drop(skb, sch, to_free);
	qdisc_qstats_overlimit(sch);
	qdisc_drop(skb, sch, to_free);
	return NET_XMIT_CN;
}

static int rio_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	if (rio_classify(qdisc_priv(sch), skb) == RIO_IN)
		return rio_enqueue_class(skb, sch, to_free, RIO_IN);
	return rio_enqueue_class(skb, sch, to_free, RIO_OUT);
}

static struct sk_buff *rio_dequeue(struct Qdisc *sch)
{
	struct rio_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = qdisc_dequeue_head(sch);

	if (skb) {
		enum rio_class class = rio_skb_cb(skb)->class;

		if (rio_departure(&q->vars, class, qdisc_pkt_len(skb)))
			rio_empty(&q->vars, class, ktime_get_ns());
	}
	return skb;
}

static void rio_reset(struct Qdisc *sch)
{
	struct rio_sched_data *q = qdisc_priv(sch);

	qdisc_reset_queue(sch);
	rio_init(&q->vars, ktime_get_ns());
}

static const struct nla_policy rio_policy[TCA_RIO_MAX + 1] = {
	PRECEDENCE_POLICY,
	[TCA_RIO_UNIFORMIZE] = { .type = NLA_U8 },
};

static void rio_read(struct rio_config *config, u8 *in, struct nlattr **tb)
{
	precedence_read_u32(&config->limit, tb[TCA_PRECEDENCE_LIMIT]);
	precedence_read_curves(&config->curve[RIO_IN], &config->curve[RIO_OUT], tb);
	precedence_read_u8(&config->mode, tb[TCA_PRECEDENCE_MODE]);
	precedence_read_u8(&config->uniformize, tb[TCA_RIO_UNIFORMIZE]);
	precedence_read_u8(&config->ewma, tb[TCA_PRECEDENCE_EWMA]);
	precedence_read_u32(&config->avpkt, tb[TCA_PRECEDENCE_AVPKT]);
	precedence_read_u64(&config->bandwidth, tb[TCA_PRECEDENCE_BANDWIDTH]);
	precedence_read_u8(in, tb[TCA_PRECEDENCE_IN]);
}

static int rio_check(const struct rio_config *config, struct nlattr **tb,
		     struct netlink_ext_ack *extack)
{
	const struct precedence_curve *in = &config->curve[RIO_IN], *out = &config->curve[RIO_OUT];

	if (!in->max)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_IN_MAX],
					 "in_max must be above 0");
	if (!out->max)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_OUT_MAX],
					 "out_max must be above 0");
	if (config->mode >= RIO_MODES)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_MODE],
					 "mode must be coupled (0), decoupled (1) or wred (2)");
	if (config->uniformize > EARLY_DROP_UNIFORMIZE_RED)
		return PRECEDENCE_REFUSE(extack, tb[TCA_RIO_UNIFORMIZE],
					 "uniformize must be none (0) or red (1)");
	if (!config->avpkt)
		return PRECEDENCE_REFUSE(extack, tb[TCA_PRECEDENCE_AVPKT],
					 "avpkt must be above 0");
	return precedence_check_curves(in, out, tb, extack);
}

/*
 * Packets, averages and counts stay; so do packets beyond a smaller limit,
 * until they have left. What the request does not name keeps its value.
 */
static int rio_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct rio_sched_data *q = qdisc_priv(sch);
	struct rio_config config = q->config;
	struct nlattr *tb[TCA_RIO_MAX + 1];
	u8 in = q->in;
	int err;

	err = nla_parse_nested(tb, TCA_RIO_MAX, opt, rio_policy, extack);
	if (err)
		return err;
	rio_read(&config, &in, tb);
	err = precedence_check(tb, extack) ?: rio_check(&config, tb, extack);
	if (err)
		return err;

	sch_tree_lock(sch);
	rio_change_params(&q->params, &q->vars, &config, ktime_get_ns());
	q->config = config;
	q->in = in;
	if (tb[TCA_PRECEDENCE_SEED]) {
		q->seeded = true;
		q->seed = nla_get_u64(tb[TCA_PRECEDENCE_SEED]);
		prandom_seed_state(&q->random, q->seed);
	}
	sch_tree_unlock(sch);
	return 0;
}

static int rio_init_qdisc(struct Qdisc *sch, struct nlattr *opt,
			  struct netlink_ext_ack *extack)
{
	struct rio_sched_data *q = qdisc_priv(sch);
	int err = precedence_require(opt, extack);

	if (err)
		return err;
	q->config.avpkt = PRECEDENCE_DEFAULT_AVPKT;
	q->config.bandwidth = PRECEDENCE_DEFAULT_BANDWIDTH;
	q->config.ewma = PRECEDENCE_DEFAULT_EWMA;
	q->config.mode = RIO_COUPLED;
	q->config.uniformize = EARLY_DROP_UNIFORMIZE_RED;
	q->in = PRECEDENCE_DEFAULT_IN;
	rio_init(&q->vars, ktime_get_ns());
	prandom_seed_state(&q->random, get_random_u64());
	return rio_change(sch, opt, extack);
}

static int rio_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct rio_sched_data *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start_noflag(skb, TCA_OPTIONS);
	const struct rio_config *config = &q->config;

	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_PRECEDENCE_LIMIT, config->limit) ||
	    precedence_put_curves(skb, &config->curve[RIO_IN], &config->curve[RIO_OUT]) ||
	    nla_put_u8(skb, TCA_PRECEDENCE_MODE, config->mode) ||
	    nla_put_u8(skb, TCA_RIO_UNIFORMIZE, config->uniformize) ||
	    nla_put_u8(skb, TCA_PRECEDENCE_EWMA, config->ewma) ||
	    nla_put_u32(skb, TCA_PRECEDENCE_AVPKT, config->avpkt) ||
	    nla_put_u64_64bit(skb, TCA_PRECEDENCE_BANDWIDTH, config->bandwidth,
			      TCA_PRECEDENCE_PAD) ||
	    nla_put_u8(skb, TCA_PRECEDENCE_IN, q->in) ||
	    (q->seeded &&
	     nla_put_u64_64bit(skb, TCA_PRECEDENCE_SEED, q->seed, TCA_PRECEDENCE_PAD))) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

static void rio_class_xstats(struct tc_rio_class_xstats *x, const struct rio_sched_data *q,
			     enum rio_class class)
{
	const struct precedence_count *count = q->stats.count[class];

	x->enqueued = precedence_put_count(&count[RIO_ENQUEUE]);
	x->early = precedence_put_count(&count[RIO_EARLY]);
	x->forced = precedence_put_count(&count[RIO_FORCED]);
	x->pdrop = precedence_put_count(&count[RIO_PDROP]);
	x->backlog = q->vars.class[class].backlog;
	x->average = queue_average_bytes(&q->params.average, &q->vars.class[class].average);
}

static int rio_dump_stats(struct Qdisc *sch, struct gnet_dump *d)
{
	struct rio_sched_data *q = qdisc_priv(sch);
	struct tc_rio_xstats x = {};

	sch_tree_lock(sch);	/* one moment for all of them */
	rio_class_xstats(&x.in, q, RIO_IN);
	rio_class_xstats(&x.out, q, RIO_OUT);
	x.average = queue_average_bytes(&q->params.average, &q->vars.total);
	sch_tree_unlock(sch);
	return gnet_stats_copy_app(d, &x, sizeof(x));
}

static struct Qdisc_ops rio_qdisc_ops __read_mostly = {
	.id = "rio",
	.priv_size = sizeof(struct rio_sched_data),
	.enqueue = rio_enqueue,
	.dequeue = rio_dequeue,
	.peek = qdisc_peek_head,
	.init = rio_init_qdisc,
	.reset = rio_reset,
	.change = rio_change,
	.dump = rio_dump,
	.dump_stats = rio_dump_stats,
	.owner = THIS_MODULE,
};

static int __init rio_module_init(void)
{
	BUILD_BUG_ON((int)TC_PRECEDENCE_COUPLED != RIO_COUPLED);
	BUILD_BUG_ON((int)TC_PRECEDENCE_DECOUPLED != RIO_DECOUPLED);
	BUILD_BUG_ON((int)TC_PRECEDENCE_WRED != RIO_WRED);
	BUILD_BUG_ON((int)TC_RIO_UNIFORMIZE_NONE != EARLY_DROP_UNIFORMIZE_NONE);
	BUILD_BUG_ON((int)TC_RIO_UNIFORMIZE_RED != EARLY_DROP_UNIFORMIZE_RED);
	return register_qdisc(&rio_qdisc_ops);
}

static void __exit rio_module_exit(void)
{
	unregister_qdisc(&rio_qdisc_ops);
}

module_init(rio_module_init);
module_exit(rio_module_exit);

MODULE_ALIAS_NET_SCH("rio");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("RED with IN and OUT packets (RIO)");
