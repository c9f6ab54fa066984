/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the markers, actions of tc, have in common: words from netlink and back, changes under
 * traffic, memory for flows, the direction of a packet. A marker starts with a struct marker,
 * describes itself in a struct marker_kind and is made a module by MARKER_MODULE.
 */
#ifndef SCHED_MARKER_H
#define SCHED_MARKER_H

#include <linux/mm.h>
#include <linux/timekeeping.h>
#include <net/act_api.h>
#include <net/netlink.h>
#include <net/netns/generic.h>
#include <net/pkt_cls.h>

#include <compat.h>
#include <uapi/marker.h>

#include "packet.h"

#define MARKER_ATTRIBUTES	16	/* more than any kind has */
#define MARKER_REQUIRED		(~0U)

/* A word: what it may be, what it is at first, and what is said of another value. */
struct marker_word {
	u8 bytes;		/* of its attribute: 1 or 4; 0: no word */
	u32 min, max;
	u32 initial;		/* or MARKER_REQUIRED */
	const char *refusal;	/* names the word and what is allowed */
};

#define MARKER_WORDS									\
	[TCA_MARKER_INTERVAL] = { 4, TC_MARKER_INTERVAL_MIN, TC_MARKER_INTERVAL_MAX,		\
				  MARKER_REQUIRED,					\
				  "interval must be given, from 1ms to 4s" },		\
	[TCA_MARKER_TOKENS] = { 4, 1, TC_MARKER_TOKENS_MAX, MARKER_REQUIRED,		\
				"tokens must be given, from 1 to 2147483647 bytes" },	\
	[TCA_MARKER_IN] = { 1, 0, TC_MARKER_DSCP_MAX, TC_MARKER_IN_DEFAULT,		\
			    "in must be a codepoint from 0 to 63" },			\
	[TCA_MARKER_OUT] = { 1, 0, TC_MARKER_DSCP_MAX, TC_MARKER_OUT_DEFAULT,		\
			     "out must be a codepoint from 0 to 63" },			\
	[TCA_MARKER_FLOWS] = { 4, 1, TC_MARKER_FLOWS_MAX, TC_MARKER_FLOWS_DEFAULT,	\
			       "flows must be from 1 to 262144" },			\
	[TCA_MARKER_FORWARD] = { 1, 0, __TC_MARKER_FORWARD_MAX - 1,			\
				 TC_MARKER_FORWARD_INGRESS,				\
				 "forward must be ingress or egress" }

struct marker {
	struct tc_action common;	/* its lock protects all that follows */
	void *memory;			/* for flows; what apply() was given last */
	u32 word[MARKER_ATTRIBUTES];	/* in force, by attribute */
};

struct marker_kind {
	struct tc_action_ops ops;
	struct pernet_operations net;
	struct nla_policy policy[MARKER_ATTRIBUTES];	/* of words: from `words`, at load */
	const struct marker_word *words;
	int last_attribute;
	int xstats_bytes;
	/*
	 * How many bytes of zeroed memory a marker needs to go by these words; 0: what it has does.
	 * Called without the lock.
	 */
	u64 (*memory)(const struct marker *m, const u32 *word);
	/* Make that memory ready, which takes its time. Called without the lock. */
	void (*prepare)(void *memory, const u32 *word);
	/*
	 * Go by these words from now on; first: nothing was in force yet. memory is prepared, or
	 * NULL; if it is there, the old one is freed afterwards. Called under the lock; never
	 * fails.
	 */
	void (*apply)(struct marker *m, const u32 *word, void *memory, bool first, u64 now);
	/* Called under the lock. */
	void (*xstats)(const struct marker *m, void *xstats);
};

static inline struct marker *to_marker(const struct tc_action *a)
{
	return container_of(a, struct marker, common);
}

static const struct marker_kind *marker_kind(const struct tc_action *a)
{
	return container_of(a->ops, struct marker_kind, ops);
}

/* -------------------------------------------------------------------------------- packets */

/* tcf_lastuse_update(), which several processors do at once, with its accesses marked. */
static inline void marker_used(struct tcf_t *times)
{
	unsigned long now = jiffies;

	if (READ_ONCE(times->lastuse) != now)
		WRITE_ONCE(times->lastuse, now);
	if (unlikely(!READ_ONCE(times->firstuse)))
		WRITE_ONCE(times->firstuse, now);
}

/*
 * Count a packet, and its drop if control says so. Returns what is to be done with it after the
 * marker.
 */
static inline int marker_seen(struct marker *m, struct sk_buff *skb)
{
	int control = READ_ONCE(m->common.tcfa_action);

	marker_used(&m->common.tcfa_tm);
	tcf_action_update_bstats(&m->common, skb);
	if (control == TC_ACT_SHOT)
		tcf_action_inc_drop_qstats(&m->common);
	return control;
}

/* Whether a packet goes the way that is marked. Called under the lock. */
static inline bool marker_forward(const struct marker *m, const struct sk_buff *skb)
{
	return skb_at_tc_ingress(skb) ==
	       (m->word[TCA_MARKER_FORWARD] == TC_MARKER_FORWARD_INGRESS);
}

/* ---------------------------------------------------------------------------------- words */

static int marker_refuse(struct netlink_ext_ack *extack, const struct nlattr *attr,
			 const char *refusal)
{
	NL_SET_BAD_ATTR(extack, attr);
	if (extack)
		extack->_msg = refusal;
	return -EINVAL;
}

/* Read the words given into word[], which holds what was before: nothing if first. */
static int marker_read(const struct marker_kind *kind, struct nlattr **tb, u32 *word, bool first,
		       struct netlink_ext_ack *extack)
{
	int i;

	for (i = TCA_MARKER_FIRST_WORD; i <= kind->last_attribute; i++) {
		const struct marker_word *w = &kind->words[i];

		if (tb[i])
			word[i] = w->bytes == 1 ? nla_get_u8(tb[i]) : nla_get_u32(tb[i]);
		else if (first)
			word[i] = w->initial;
		if (word[i] < w->min || word[i] > w->max)
			return marker_refuse(extack, tb[i], w->refusal);
	}
	return 0;
}

/* The policy outlives every request: the answer to a refused one quotes it. */
static void marker_fill_policy(struct marker_kind *kind)
{
	int i;

	for (i = TCA_MARKER_FIRST_WORD; i <= kind->last_attribute; i++)
		kind->policy[i].type = kind->words[i].bytes == 1 ? NLA_U8 : NLA_U32;
}

static int marker_parse(const struct marker_kind *kind, struct nlattr **tb, struct nlattr *nla,
			struct netlink_ext_ack *extack)
{
	int err;

	if (!nla)
		return marker_refuse(extack, NULL, "a marker needs options");
	err = nla_parse_nested(tb, kind->last_attribute, nla, kind->policy, extack);
	if (err < 0)
		return err;
	if (!tb[TCA_MARKER_PARMS])
		return marker_refuse(extack, nla, "a marker needs its index, which may be 0");
	return 0;
}

/* Carry a change out: all of it, or nothing. */
static int marker_change(const struct marker_kind *kind, struct marker *m, struct nlattr **tb,
			 struct tcf_proto *tp, bool first, struct netlink_ext_ack *extack)
{
	bool sets_control = first || tb[TCA_MARKER_CONTROL];
	int control = TC_ACT_PIPE;
	struct tcf_chain *chain = NULL;
	u32 word[MARKER_ATTRIBUTES];
	void *memory = NULL;
	u64 bytes;
	int err;

	spin_lock_bh(&m->common.tcfa_lock);
	memcpy(word, m->word, sizeof(word));
	spin_unlock_bh(&m->common.tcfa_lock);
	err = marker_read(kind, tb, word, first, extack);
	if (err < 0)
		return err;
	if (tb[TCA_MARKER_CONTROL])
		control = nla_get_u32(tb[TCA_MARKER_CONTROL]);
	/* Control that stays is not looked at: its chain is known only where it was bound. */
	if (sets_control) {
		err = tcf_action_check_ctrlact(control, tp, &chain, extack);
		if (err < 0)
			return err;
	}
	bytes = kind->memory(m, word);
	if (bytes) {
		memory = kvzalloc(bytes, GFP_KERNEL_ACCOUNT);
		if (!memory) {
			if (chain)
				tcf_chain_put_by_act(chain);
			NL_SET_ERR_MSG(extack, "no memory for so many flows");
			return -ENOMEM;
		}
		kind->prepare(memory, word);
	}

	spin_lock_bh(&m->common.tcfa_lock);
	kind->apply(m, word, memory, first, ktime_get_ns());
	memcpy(m->word, word, sizeof(word));
	if (memory)
		swap(m->memory, memory);
	if (sets_control)
		chain = tcf_action_set_ctrlact(&m->common, control, chain);
	spin_unlock_bh(&m->common.tcfa_lock);

	kvfree(memory);
	if (chain)
		tcf_chain_put_by_act(chain);
	return 0;
}

/* -------------------------------------------------------------------------------- netlink */

static int marker_init(const struct marker_kind *kind, struct net *net, struct nlattr *nla,
		       struct nlattr *est, struct tc_action **a, struct tcf_proto *tp, u32 flags,
		       struct netlink_ext_ack *extack)
{
	struct tc_action_net *tn = net_generic(net, kind->ops.net_id);
	bool bind = flags & TCA_ACT_FLAGS_BIND;
	struct nlattr *tb[MARKER_ATTRIBUTES];
	bool exists;
	u32 index;
	int err;

	err = marker_parse(kind, tb, nla, extack);
	if (err < 0)
		return err;
	index = ((struct tc_marker *)nla_data(tb[TCA_MARKER_PARMS]))->index;
	err = tcf_idr_check_alloc(tn, &index, a, bind);
	if (err < 0)
		return err;
	exists = err;
	if (exists && bind)
		return ACT_P_BOUND;
	if (exists && !(flags & TCA_ACT_FLAGS_REPLACE)) {
		tcf_idr_release(*a, bind);
		return -EEXIST;
	}
	if (!exists) {
		err = tcf_idr_create(tn, index, est, a, &kind->ops, bind, true, flags);
		if (err) {
			tcf_idr_cleanup(tn, index);
			return err;
		}
	}
	err = marker_change(kind, to_marker(*a), tb, tp, !exists, extack);
	if (err < 0) {
		tcf_idr_release(*a, bind);
		return err;
	}
	return exists ? 0 : ACT_P_CREATED;
}

static int marker_put_words(struct sk_buff *skb, const struct marker_kind *kind, const u32 *word)
{
	int i, err = 0;

	for (i = TCA_MARKER_FIRST_WORD; i <= kind->last_attribute && !err; i++)
		err = kind->words[i].bytes == 1 ? nla_put_u8(skb, i, word[i]) :
						  nla_put_u32(skb, i, word[i]);
	return err;
}

static int marker_dump(struct sk_buff *skb, struct tc_action *a, int bind, int ref)
{
	const struct marker_kind *kind = marker_kind(a);
	unsigned char *before = skb_tail_pointer(skb);
	struct marker *m = to_marker(a);
	struct tc_marker parms = {
		.index = a->tcfa_index,
		.refcnt = refcount_read(&a->tcfa_refcnt) - ref,
		.bindcnt = atomic_read(&a->tcfa_bindcnt) - bind,
	};
	struct nlattr *xstats;
	struct tcf_t used = {
		.install = a->tcfa_tm.install,
		.lastuse = READ_ONCE(a->tcfa_tm.lastuse),
		.firstuse = READ_ONCE(a->tcfa_tm.firstuse),
		.expires = a->tcfa_tm.expires,
	}, times;
	int err;

	spin_lock_bh(&a->tcfa_lock);
	parms.action = a->tcfa_action;
	err = nla_put(skb, TCA_MARKER_PARMS, sizeof(parms), &parms);
	err = err ?: nla_put_u32(skb, TCA_MARKER_CONTROL, a->tcfa_action);
	err = err ?: marker_put_words(skb, kind, m->word);
	tcf_tm_dump(&times, &used);
	err = err ?: nla_put_64bit(skb, TCA_MARKER_TM, sizeof(times), &times, TCA_MARKER_PAD);
	xstats = err ? NULL : nla_reserve_64bit(skb, TCA_MARKER_XSTATS, kind->xstats_bytes,
						TCA_MARKER_PAD);
	if (xstats)
		kind->xstats(m, nla_data(xstats));
	spin_unlock_bh(&a->tcfa_lock);
	if (xstats)
		return skb->len;
	nlmsg_trim(skb, before);
	return -1;
}

static size_t marker_fill_size(const struct tc_action *a)
{
	return nla_total_size(sizeof(struct tc_marker)) +
	       MARKER_ATTRIBUTES * nla_total_size(sizeof(u32)) +
	       nla_total_size_64bit(sizeof(struct tcf_t)) +
	       nla_total_size_64bit(marker_kind(a)->xstats_bytes);
}

static void marker_cleanup(struct tc_action *a)
{
	kvfree(to_marker(a)->memory);
}

/* ---------------------------------------------------------------------------------- module */

#define MARKER_OPS(name, number, type)							\
	{										\
		.kind = #name,								\
		.id = (enum tca_id)(number),						\
		.owner = THIS_MODULE,							\
		.act = name##_act,							\
		.dump = marker_dump,							\
		.cleanup = marker_cleanup,						\
		.init = name##_init,							\
		.get_fill_size = marker_fill_size,					\
		.size = sizeof(type) + BUILD_BUG_ON_ZERO(offsetof(type, marker)),	\
	}

#define MARKER_POLICY									\
	{										\
		[TCA_MARKER_PARMS] = NLA_POLICY_EXACT_LEN(sizeof(struct tc_marker)),	\
		[TCA_MARKER_CONTROL] = { .type = NLA_U32 },				\
	}

/* kind is `static struct marker_kind name_kind`, whose functions are called name_act and so on. */
#define MARKER_MODULE(name, number, type)						\
static struct marker_kind name##_kind;							\
											\
static int name##_init(struct net *net, struct nlattr *nla, struct nlattr *est,	\
		       struct tc_action **a, struct tcf_proto *tp, u32 flags,		\
		       struct netlink_ext_ack *extack)					\
{											\
	return marker_init(&name##_kind, net, nla, est, a, tp, flags, extack);		\
}											\
											\
static int __net_init name##_net_init(struct net *net)					\
{											\
	struct tc_action_net *tn = net_generic(net, name##_kind.ops.net_id);		\
											\
	return tc_action_net_init(net, tn, &name##_kind.ops);				\
}											\
											\
static void __net_exit name##_net_exit(struct list_head *nets)				\
{											\
	tc_action_net_exit(nets, name##_kind.ops.net_id);				\
}											\
											\
static struct marker_kind name##_kind = {						\
	.ops = MARKER_OPS(name, number, type),						\
	.net = {									\
		.init = name##_net_init,						\
		.exit_batch = name##_net_exit,						\
		.id = &name##_kind.ops.net_id,						\
		.size = sizeof(struct tc_action_net),					\
	},										\
	.policy = MARKER_POLICY,							\
	.words = name##_words,								\
	.last_attribute = ARRAY_SIZE(name##_words) - 1 +				\
			  BUILD_BUG_ON_ZERO(ARRAY_SIZE(name##_words) > MARKER_ATTRIBUTES), \
	.xstats_bytes = sizeof(struct tc_##name##_xstats),				\
	.memory = name##_memory,							\
	.prepare = name##_prepare,							\
	.apply = name##_apply,								\
	.xstats = name##_xstats,							\
};											\
											\
static int __init name##_module_init(void)						\
{											\
	marker_fill_policy(&name##_kind);						\
	return tcf_register_action(&name##_kind.ops, &name##_kind.net);			\
}											\
											\
static void __exit name##_module_exit(void)						\
{											\
	tcf_unregister_action(&name##_kind.ops, &name##_kind.net);			\
}											\
											\
module_init(name##_module_init);							\
module_exit(name##_module_exit);							\
MODULE_ALIAS_NET_ACT(#name);								\
MODULE_LICENSE("GPL")

#endif /* SCHED_MARKER_H */
