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

#include <net/rio.h>
#include <uapi/rio.h>

#include "compat.h"

#define RIO_DEFAULT_AVPKT	1000
#define RIO_DEFAULT_BANDWIDTH	1250000		/* 10 Mbit/s */
#define RIO_DEFAULT_EWMA	9
#define RIO_DEFAULT_IN		10		/* AF11 */

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

/* A header behind VLAN tags or beyond the linear part, and what is not IP: -1. */
static noinline int rio_read_dscp(const struct sk_buff *skb)
{
	u8 copy[2];
	const u8 *ip = skb_header_pointer(skb, skb_network_offset(skb), sizeof(copy), copy);

	switch (ip ? skb_protocol(skb, true) : 0) {
	case htons(ETH_P_IP):
		return ip[1] >> 2;
	case htons(ETH_P_IPV6):
		return (ip[0] & 0x0f) << 2 | ip[1] >> 6;
	default:
		return -1;
	}
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
	[TCA_RIO_LIMIT] = { .type = NLA_U32 },
	[TCA_RIO_IN_MIN] = { .type = NLA_U32 },
	[TCA_RIO_IN_MAX] = { .type = NLA_U32 },
	[TCA_RIO_IN_PROBABILITY] = { .type = NLA_U32 },
	[TCA_RIO_OUT_MIN] = { .type = NLA_U32 },
	[TCA_RIO_OUT_MAX] = { .type = NLA_U32 },
	[TCA_RIO_OUT_PROBABILITY] = { .type = NLA_U32 },
	[TCA_RIO_MODE] = { .type = NLA_U8 },
	[TCA_RIO_UNIFORMIZE] = { .type = NLA_U8 },
	[TCA_RIO_EWMA] = { .type = NLA_U8 },
	[TCA_RIO_AVPKT] = { .type = NLA_U32 },
	[TCA_RIO_BANDWIDTH] = { .type = NLA_U64 },
	[TCA_RIO_IN] = { .type = NLA_U8 },
	[TCA_RIO_SEED] = { .type = NLA_U64 },
};

static void rio_read_u32(u32 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u32(attr);
}

static void rio_read_u8(u8 *value, const struct nlattr *attr)
{
	if (attr)
		*value = nla_get_u8(attr);
}

static void rio_read(struct rio_config *config, u8 *in, struct nlattr **tb)
{
	struct rio_curve *curve = config->curve;

	rio_read_u32(&config->limit, tb[TCA_RIO_LIMIT]);
	rio_read_u32(&curve[RIO_IN].min, tb[TCA_RIO_IN_MIN]);
	rio_read_u32(&curve[RIO_IN].max, tb[TCA_RIO_IN_MAX]);
	rio_read_u32(&curve[RIO_IN].probability, tb[TCA_RIO_IN_PROBABILITY]);
	rio_read_u32(&curve[RIO_OUT].min, tb[TCA_RIO_OUT_MIN]);
	rio_read_u32(&curve[RIO_OUT].max, tb[TCA_RIO_OUT_MAX]);
	rio_read_u32(&curve[RIO_OUT].probability, tb[TCA_RIO_OUT_PROBABILITY]);
	rio_read_u8(&config->mode, tb[TCA_RIO_MODE]);
	rio_read_u8(&config->uniformize, tb[TCA_RIO_UNIFORMIZE]);
	rio_read_u8(&config->ewma, tb[TCA_RIO_EWMA]);
	rio_read_u32(&config->avpkt, tb[TCA_RIO_AVPKT]);
	if (tb[TCA_RIO_BANDWIDTH])
		config->bandwidth = nla_get_u64(tb[TCA_RIO_BANDWIDTH]);
	rio_read_u8(in, tb[TCA_RIO_IN]);
}

/* Refuse with a message, pointing to the attribute if the request has it. */
#define RIO_REFUSE(extack, attr, message)					\
	({									\
		NL_SET_ERR_MSG_ATTR(extack, attr, message);			\
		-EINVAL;							\
	})

static int rio_check(const struct rio_config *config, u8 in, struct nlattr **tb,
		     struct netlink_ext_ack *extack)
{
	const struct rio_curve *curve = config->curve;

	if (!config->limit)
		return RIO_REFUSE(extack, tb[TCA_RIO_LIMIT], "limit must be above 0");
	if (!curve[RIO_IN].max)
		return RIO_REFUSE(extack, tb[TCA_RIO_IN_MAX], "in_max must be above 0");
	if (curve[RIO_IN].min > curve[RIO_IN].max)
		return RIO_REFUSE(extack, tb[TCA_RIO_IN_MIN], "in_min must not exceed in_max");
	if (!curve[RIO_OUT].max)
		return RIO_REFUSE(extack, tb[TCA_RIO_OUT_MAX], "out_max must be above 0");
	if (curve[RIO_OUT].min > curve[RIO_OUT].max)
		return RIO_REFUSE(extack, tb[TCA_RIO_OUT_MIN], "out_min must not exceed out_max");
	if (config->mode >= RIO_MODES)
		return RIO_REFUSE(extack, tb[TCA_RIO_MODE],
				  "mode must be coupled (0), decoupled (1) or wred (2)");
	if (config->uniformize > EARLY_DROP_UNIFORMIZE_RED)
		return RIO_REFUSE(extack, tb[TCA_RIO_UNIFORMIZE],
				  "uniformize must be none (0) or red (1)");
	if (config->ewma > QUEUE_AVERAGE_MAX_EWMA)
		return RIO_REFUSE(extack, tb[TCA_RIO_EWMA], "ewma must be from 0 to 31");
	if (!config->avpkt)
		return RIO_REFUSE(extack, tb[TCA_RIO_AVPKT], "avpkt must be above 0");
	if (!config->bandwidth)
		return RIO_REFUSE(extack, tb[TCA_RIO_BANDWIDTH], "bandwidth must be above 0");
	if (in > 63)
		return RIO_REFUSE(extack, tb[TCA_RIO_IN], "in must be a codepoint from 0 to 63");
	return 0;
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
	err = rio_check(&config, in, tb, extack);
	if (err)
		return err;

	sch_tree_lock(sch);
	rio_rescale(&q->vars, q->config.ewma, config.ewma);
	rio_set_params(&q->params, &config);
	q->config = config;
	q->in = in;
	if (tb[TCA_RIO_SEED]) {
		q->seeded = true;
		q->seed = nla_get_u64(tb[TCA_RIO_SEED]);
		prandom_seed_state(&q->random, q->seed);
	}
	sch_tree_unlock(sch);
	return 0;
}

static bool rio_is_whole(struct nlattr *opt)
{
	int attr;

	for (attr = TCA_RIO_LIMIT; attr <= TCA_RIO_OUT_PROBABILITY; attr++)
		if (!opt || !nla_find_nested(opt, attr))
			return false;
	return true;
}

static int rio_init_qdisc(struct Qdisc *sch, struct nlattr *opt,
			  struct netlink_ext_ack *extack)
{
	struct rio_sched_data *q = qdisc_priv(sch);

	if (!rio_is_whole(opt)) {
		NL_SET_ERR_MSG(extack,
			       "limit, in_min, in_max, in_probability, out_min, out_max and out_probability are required");
		return -EINVAL;
	}
	q->config.avpkt = RIO_DEFAULT_AVPKT;
	q->config.bandwidth = RIO_DEFAULT_BANDWIDTH;
	q->config.ewma = RIO_DEFAULT_EWMA;
	q->config.mode = RIO_COUPLED;
	q->config.uniformize = EARLY_DROP_UNIFORMIZE_RED;
	q->in = RIO_DEFAULT_IN;
	rio_init(&q->vars, ktime_get_ns());
	prandom_seed_state(&q->random, get_random_u64());
	return rio_change(sch, opt, extack);
}

static int rio_put_curves(struct sk_buff *skb, const struct rio_curve *curve)
{
	return nla_put_u32(skb, TCA_RIO_IN_MIN, curve[RIO_IN].min) ||
	       nla_put_u32(skb, TCA_RIO_IN_MAX, curve[RIO_IN].max) ||
	       nla_put_u32(skb, TCA_RIO_IN_PROBABILITY, curve[RIO_IN].probability) ||
	       nla_put_u32(skb, TCA_RIO_OUT_MIN, curve[RIO_OUT].min) ||
	       nla_put_u32(skb, TCA_RIO_OUT_MAX, curve[RIO_OUT].max) ||
	       nla_put_u32(skb, TCA_RIO_OUT_PROBABILITY, curve[RIO_OUT].probability);
}

static int rio_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct rio_sched_data *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start_noflag(skb, TCA_OPTIONS);
	const struct rio_config *config = &q->config;

	if (!opts)
		return -EMSGSIZE;
	if (nla_put_u32(skb, TCA_RIO_LIMIT, config->limit) ||
	    rio_put_curves(skb, config->curve) ||
	    nla_put_u8(skb, TCA_RIO_MODE, config->mode) ||
	    nla_put_u8(skb, TCA_RIO_UNIFORMIZE, config->uniformize) ||
	    nla_put_u8(skb, TCA_RIO_EWMA, config->ewma) ||
	    nla_put_u32(skb, TCA_RIO_AVPKT, config->avpkt) ||
	    nla_put_u64_64bit(skb, TCA_RIO_BANDWIDTH, config->bandwidth, TCA_RIO_PAD) ||
	    nla_put_u8(skb, TCA_RIO_IN, q->in) ||
	    (q->seeded && nla_put_u64_64bit(skb, TCA_RIO_SEED, q->seed, TCA_RIO_PAD))) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

static void rio_class_xstats(struct tc_rio_class_xstats *x, const struct rio_sched_data *q,
			     enum rio_class class)
{
	const struct rio_count *count = q->stats.count[class];

	x->enqueued = count[RIO_ENQUEUE].packets;
	x->enqueued_bytes = count[RIO_ENQUEUE].bytes;
	x->early = count[RIO_EARLY].packets;
	x->early_bytes = count[RIO_EARLY].bytes;
	x->forced = count[RIO_FORCED].packets;
	x->forced_bytes = count[RIO_FORCED].bytes;
	x->pdrop = count[RIO_PDROP].packets;
	x->pdrop_bytes = count[RIO_PDROP].bytes;
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
	BUILD_BUG_ON((int)TC_RIO_COUPLED != RIO_COUPLED);
	BUILD_BUG_ON((int)TC_RIO_DECOUPLED != RIO_DECOUPLED);
	BUILD_BUG_ON((int)TC_RIO_WRED != RIO_WRED);
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
