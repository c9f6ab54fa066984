// SPDX-License-Identifier: GPL-2.0
/*
 * The qdisc delivery: include/net/delivery.h says what it does. Here are its one child, in which
 * packets wait, its clock, and netlink.
 */
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/skbuff.h>
#include <linux/timekeeping.h>
#include <net/netlink.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

#include <compat.h>
#include <net/delivery.h>
#include <uapi/delivery.h>

struct delivery_sched_data {
	struct delivery link;
	struct Qdisc *child;
	struct qdisc_watchdog watchdog;
	s64 epoch;		/* of CLOCK_REALTIME */
	u64 opportunities;	/* of the trace */
};

static int delivery_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct delivery_sched_data *q = qdisc_priv(sch);
	unsigned int len = qdisc_pkt_len(skb);
	int err;

	if (!sch->q.qlen)
		delivery_idle(&q->link, ktime_get_ns());
	err = qdisc_enqueue(skb, q->child, to_free);
	if (err != NET_XMIT_SUCCESS) {
		if (net_xmit_drop_count(err))
			qdisc_qstats_drop(sch);
		return err;
	}
	sch->qstats.backlog += len;
	sch->q.qlen++;
	return NET_XMIT_SUCCESS;
}

static struct sk_buff *delivery_dequeue(struct Qdisc *sch)
{
	struct delivery_sched_data *q = qdisc_priv(sch);
	struct sk_buff *skb = q->child->ops->peek(q->child);
	s64 now = ktime_get_ns(), next;
	u32 len;

	if (!skb) {
		delivery_idle(&q->link, now);
		return NULL;
	}
	len = qdisc_pkt_len(skb);
	delivery_fill(&q->link, now, len);
	if (!delivery_take(&q->link, len)) {
		next = delivery_when(&q->link, len);
		if (next == DELIVERY_NEVER)
			qdisc_watchdog_cancel(&q->watchdog);
		else
			qdisc_watchdog_schedule_ns(&q->watchdog, next);
		qdisc_qstats_overlimit(sch);
		return NULL;
	}
	skb = qdisc_dequeue_peeked(q->child);
	if (unlikely(!skb))
		return NULL;
	qdisc_qstats_backlog_dec(sch, skb);
	sch->q.qlen--;
	qdisc_bstats_update(sch, skb);
	return skb;
}

static const struct nla_policy delivery_policy[TCA_DELIVERY_MAX + 1] = {
	[TCA_DELIVERY_BURST] = { .type = NLA_U32 },
	[TCA_DELIVERY_RATES] = { .type = NLA_BINARY,
				 .len = TC_DELIVERY_RATES_MAX * sizeof(struct tc_delivery_rate) },
	[TCA_DELIVERY_TRACE] = { .type = NLA_BINARY },
	[TCA_DELIVERY_APPEND] = { .type = NLA_BINARY },
	[TCA_DELIVERY_EPOCH] = { .type = NLA_S64 },
	[TCA_DELIVERY_LENGTH] = { .type = NLA_REJECT },
	[TCA_DELIVERY_OPPORTUNITIES] = { .type = NLA_REJECT },
};

#define DELIVERY_REFUSE(extack, attr, message)				\
	({								\
		NL_SET_ERR_MSG_ATTR(extack, attr, message);		\
		-EINVAL;						\
	})

/* Steps from the request, to be freed; NULL with *err as it is if it has none. */
static struct delivery_step *delivery_read_rates(const struct nlattr *attr, u32 *length, int *err,
						 struct netlink_ext_ack *extack)
{
	struct tc_delivery_rate one;
	struct delivery_step *steps;
	u32 i;

	if (!attr)
		return NULL;
	*length = nla_len(attr) / sizeof(one);
	if (!*length || nla_len(attr) % sizeof(one)) {
		*err = DELIVERY_REFUSE(extack, attr, "rates must be pairs of a time and a rate");
		return NULL;
	}
	steps = kvmalloc_array(*length, sizeof(*steps), GFP_KERNEL);
	if (!steps) {
		*err = -ENOMEM;
		return NULL;
	}
	for (i = 0; i < *length; i++) {
		memcpy(&one, nla_data(attr) + i * sizeof(one), sizeof(one));
		steps[i].at = one.at;
		steps[i].rate = one.rate;
		if (one.at < 0 || one.at > S64_MAX / 4)
			*err = DELIVERY_REFUSE(extack, attr, "a rate's time is out of range");
		else if (i && one.at <= steps[i - 1].at)
			*err = DELIVERY_REFUSE(extack, attr, "times of rates must go upwards");
	}
	return steps;
}

/* The old trace, if it is to go on, and what the request has of it. */
static u8 *delivery_read_trace(const struct delivery *old, struct nlattr **tb, u32 *length,
			       int *err, struct netlink_ext_ack *extack)
{
	const struct nlattr *append = tb[TCA_DELIVERY_APPEND];
	const struct nlattr *attr = append ?: tb[TCA_DELIVERY_TRACE];
	u32 had = append ? old->length : 0;
	u8 *trace;

	if (!attr)
		return NULL;
	if (append && !old->trace) {
		*err = DELIVERY_REFUSE(extack, append, "there is no trace to append to");
		return NULL;
	}
	*length = had + nla_len(attr);
	if (*length > TC_DELIVERY_LENGTH_MAX || !nla_len(attr)) {
		*err = DELIVERY_REFUSE(extack, attr, "a trace has 1 to 10000000 ms");
		return NULL;
	}
	trace = kvmalloc(*length, GFP_KERNEL);
	if (!trace) {
		*err = -ENOMEM;
		return NULL;
	}
	if (had)
		memcpy(trace, old->trace, had);
	memcpy(trace + had, nla_data(attr), nla_len(attr));
	return trace;
}

static u64 delivery_sum(const u8 *trace, u32 length)
{
	u64 sum = 0;

	while (length--)
		sum += *trace++;
	return sum;
}

static int delivery_check(struct nlattr **tb, const struct delivery *link,
			  struct netlink_ext_ack *extack)
{
	const struct nlattr *trace = tb[TCA_DELIVERY_TRACE], *rates = tb[TCA_DELIVERY_RATES];

	if (!!rates + !!trace + !!tb[TCA_DELIVERY_APPEND] > 1)
		return DELIVERY_REFUSE(extack, rates ?: trace,
				       "give one of rates, trace and append");
	if (!link->steps && !link->trace)
		return DELIVERY_REFUSE(extack, NULL, "rates or a trace is required");
	if (link->steps && !link->burst)
		return DELIVERY_REFUSE(extack, tb[TCA_DELIVERY_BURST] ?: rates,
				       "rates need a burst above 0");
	return 0;
}

/*
 * The child and its packets stay, and the credit. What the request does not name keeps its value,
 * but rates end a trace and a trace rates. The epoch is now unless it is given.
 */
static int delivery_change(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct delivery_sched_data *q = qdisc_priv(sch);
	struct nlattr *tb[TCA_DELIVERY_MAX + 1];
	struct delivery link = q->link;
	struct delivery_step *steps;
	u64 opportunities;
	u8 *trace;
	int err;

	err = nla_parse_nested(tb, TCA_DELIVERY_MAX, opt, delivery_policy, extack);
	if (err)
		return err;
	steps = delivery_read_rates(tb[TCA_DELIVERY_RATES], &link.length, &err, extack);
	trace = delivery_read_trace(&q->link, tb, &link.length, &err, extack);
	if (err)
		goto free;
	if (steps || trace) {
		link.steps = steps;
		link.trace = trace;
	}
	if (tb[TCA_DELIVERY_BURST])
		link.burst = nla_get_u32(tb[TCA_DELIVERY_BURST]);
	opportunities = link.trace ? delivery_sum(link.trace, link.length) : 0;
	err = delivery_check(tb, &link, extack);
	if (err)
		goto free;

	sch_tree_lock(sch);
	if (steps || trace) {
		swap(steps, q->link.steps);
		swap(trace, q->link.trace);	/* from here on those to be freed */
	}
	if (tb[TCA_DELIVERY_EPOCH])
		q->epoch = nla_get_s64(tb[TCA_DELIVERY_EPOCH]);
	link.epoch = q->epoch - ktime_to_ns(ktime_mono_to_real(0));
	link.credit = q->link.credit;
	q->link = link;
	q->opportunities = opportunities;
	delivery_begin(&q->link, ktime_get_ns());
	sch_tree_unlock(sch);
	/* A packet that waited for the old rate may go by the new one. */
	if (sch->q.qlen)
		qdisc_watchdog_schedule_ns(&q->watchdog, ktime_get_ns());
free:
	kvfree(steps);
	kvfree(trace);
	return err;
}

static int delivery_init(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	struct delivery_sched_data *q = qdisc_priv(sch);

	qdisc_watchdog_init(&q->watchdog, sch);
	q->child = qdisc_create_dflt(sch->dev_queue, &pfifo_qdisc_ops, TC_H_MAKE(sch->handle, 1),
				     extack) ?: &noop_qdisc;
	if (q->child != &noop_qdisc)
		qdisc_hash_add(q->child, true);
	if (!opt)
		return DELIVERY_REFUSE(extack, NULL, "rates or a trace is required");
	q->epoch = ktime_get_real_ns();
	return delivery_change(sch, opt, extack);
}

static void delivery_reset(struct Qdisc *sch)
{
	struct delivery_sched_data *q = qdisc_priv(sch);

	qdisc_reset(q->child);
	q->link.credit = 0;
	qdisc_watchdog_cancel(&q->watchdog);
}

static void delivery_destroy(struct Qdisc *sch)
{
	struct delivery_sched_data *q = qdisc_priv(sch);

	qdisc_watchdog_cancel(&q->watchdog);
	qdisc_put(q->child);
	kvfree(q->link.steps);
	kvfree(q->link.trace);
}

static int delivery_put_rates(struct sk_buff *skb, const struct delivery *link)
{
	u32 i, size = link->length * sizeof(struct tc_delivery_rate);
	struct nlattr *attr = nla_reserve(skb, TCA_DELIVERY_RATES, size);

	if (!attr)
		return -EMSGSIZE;
	for (i = 0; i < link->length; i++) {
		struct tc_delivery_rate one = { link->steps[i].at, link->steps[i].rate };

		memcpy(nla_data(attr) + i * sizeof(one), &one, sizeof(one));
	}
	return 0;
}

static int delivery_dump(struct Qdisc *sch, struct sk_buff *skb)
{
	struct delivery_sched_data *q = qdisc_priv(sch);
	struct nlattr *opts = nla_nest_start_noflag(skb, TCA_OPTIONS);
	int err;

	if (!opts)
		return -EMSGSIZE;
	if (q->link.steps)
		err = nla_put_u32(skb, TCA_DELIVERY_BURST, q->link.burst) ?:
		      delivery_put_rates(skb, &q->link);
	else
		err = nla_put_u32(skb, TCA_DELIVERY_LENGTH, q->link.length) ?:
		      nla_put_u64_64bit(skb, TCA_DELIVERY_OPPORTUNITIES, q->opportunities,
					TCA_DELIVERY_PAD);
	if (err || nla_put_s64(skb, TCA_DELIVERY_EPOCH, q->epoch, TCA_DELIVERY_PAD)) {
		nla_nest_cancel(skb, opts);
		return -EMSGSIZE;
	}
	return nla_nest_end(skb, opts);
}

/* ----------------------------------------------------------- its one class */

static int delivery_graft(struct Qdisc *sch, unsigned long class, struct Qdisc *child,
			  struct Qdisc **old, struct netlink_ext_ack *extack)
{
	struct delivery_sched_data *q = qdisc_priv(sch);

	*old = qdisc_replace(sch, child ?: &noop_qdisc, &q->child);
	return 0;
}

static struct Qdisc *delivery_leaf(struct Qdisc *sch, unsigned long class)
{
	struct delivery_sched_data *q = qdisc_priv(sch);

	return q->child;
}

static unsigned long delivery_find(struct Qdisc *sch, u32 class)
{
	return 1;
}

static void delivery_walk(struct Qdisc *sch, struct qdisc_walker *walker)
{
	if (walker->stop)
		return;
	if (walker->count >= walker->skip && walker->fn(sch, 1, walker) < 0)
		walker->stop = 1;
	walker->count++;
}

static int delivery_dump_class(struct Qdisc *sch, unsigned long class, struct sk_buff *skb,
			       struct tcmsg *message)
{
	struct delivery_sched_data *q = qdisc_priv(sch);

	message->tcm_handle |= TC_H_MIN(1);
	message->tcm_info = q->child->handle;
	return 0;
}

static const struct Qdisc_class_ops delivery_class_ops = {
	.graft = delivery_graft,
	.leaf = delivery_leaf,
	.find = delivery_find,
	.walk = delivery_walk,
	.dump = delivery_dump_class,
};

static struct Qdisc_ops delivery_qdisc_ops __read_mostly = {
	.id = "delivery",
	.cl_ops = &delivery_class_ops,
	.priv_size = sizeof(struct delivery_sched_data),
	.enqueue = delivery_enqueue,
	.dequeue = delivery_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = delivery_init,
	.reset = delivery_reset,
	.destroy = delivery_destroy,
	.change = delivery_change,
	.dump = delivery_dump,
	.owner = THIS_MODULE,
};

static int __init delivery_module_init(void)
{
	return register_qdisc(&delivery_qdisc_ops);
}

static void __exit delivery_module_exit(void)
{
	unregister_qdisc(&delivery_qdisc_ops);
}

module_init(delivery_module_init);
module_exit(delivery_module_exit);

MODULE_ALIAS_NET_SCH("delivery");
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Link whose rate changes at given instants");
