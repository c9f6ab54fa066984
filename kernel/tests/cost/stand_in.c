// SPDX-License-Identifier: GPL-2.0
/*
 * What the modules call of the kernel, as simple as it can be. On a packet's way this is: the
 * clock (a variable), random numbers (a xorshift generator where the kernel has a larger one:
 * what it costs is red's gain), and making a header writable (as the kernel, for one that is).
 */
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/reciprocal_div.h>
#include <linux/skbuff.h>
#include <net/act_api.h>
#include <net/netlink.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>

#include "cost.h"
#include "stand_in.h"

/* ------------------------------------------------------------------------- on a packet's way */

u64 cost_now = NSEC_PER_SEC;

/* Interrupts are on, and none waits: what arch/um's inline functions look at. */
int signals_enabled = 1;
unsigned int signals_pending;
LIST_HEAD(time_travel_irqs);

ktime_t ktime_get(void)
{
	return cost_now;
}

static u32 next_random(void)
{
	static u32 state = 2463534242U;

	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

u32 get_random_u32(void)
{
	return next_random();
}

u32 prandom_u32_state(struct rnd_state *state)
{
	return next_random();
}

int skb_ensure_writable(struct sk_buff *skb, unsigned int write_len)
{
	if (!pskb_may_pull(skb, write_len))
		return -ENOMEM;
	if (!skb_cloned(skb) || skb_clone_writable(skb, write_len))
		return 0;
	cost_fail("a packet of the load is cloned");
}

int skb_copy_bits(const struct sk_buff *skb, int offset, void *to, int len)
{
	cost_fail("a header of the load is not linear");
}

void *__pskb_pull_tail(struct sk_buff *skb, int delta)
{
	cost_fail("a header of the load is not linear");
}

int tcf_action_exec(struct sk_buff *skb, struct tc_action **actions, int nr_actions,
		    struct tcf_result *res)
{
	cost_fail("no queue of the load has actions of its own");
}

struct sk_buff *tcf_qevent_handle(struct tcf_qevent *qe, struct Qdisc *sch, struct sk_buff *skb,
				  struct sk_buff **to_free, int *ret)
{
	return skb;	/* as without a block, after a look at one */
}

/* -------------------------------------------------------------------------------- set-up */

unsigned long volatile jiffies;
struct Qdisc noop_qdisc;

u64 get_random_u64(void)
{
	return 0x9e3779b97f4a7c15ULL;
}

void *__kvmalloc_node_noprof(size_t size, gfp_t flags, int node)
{
	return cost_allocate(size);
}

void *__kmalloc_noprof(size_t size, gfp_t flags)
{
	return cost_allocate(size);
}

#undef kmalloc_caches
kmem_buckets kmalloc_caches[NR_KMALLOC_TYPES];

void *__kmalloc_cache_noprof(struct kmem_cache *s, gfp_t flags, size_t size)
{
	return cost_allocate(size);
}

/* A program that ends in a second gives nothing back. */
void kfree(const void *memory)
{
}

void kvfree(const void *memory)
{
}

void __local_bh_enable_ip(unsigned long ip, unsigned int cnt)
{
}

int rtnl_is_locked(void)
{
	return 1;
}

void __mutex_init(struct mutex *lock, const char *name, struct lock_class_key *key)
{
}

void init_timer_key(struct timer_list *timer, void (*func)(struct timer_list *),
		    unsigned int flags, const char *name, struct lock_class_key *key)
{
}

int timer_delete(struct timer_list *timer)
{
	return 0;
}

struct reciprocal_value reciprocal_value(u32 d)
{
	struct reciprocal_value r;
	int l = fls(d - 1);

	r.m = div_u64(((1ULL << 32) * ((1ULL << l) - d)), d) + 1;
	r.sh1 = min(l, 1);
	r.sh2 = max(l - 1, 0);
	return r;
}

int __nla_parse(struct nlattr **tb, int maxtype, const struct nlattr *head, int len,
		const struct nla_policy *policy, unsigned int validate,
		struct netlink_ext_ack *extack)
{
	const struct nlattr *attr;
	int left;

	memset(tb, 0, sizeof(*tb) * (maxtype + 1));
	nla_for_each_attr(attr, head, len, left)
		if (nla_type(attr) <= maxtype)
			tb[nla_type(attr)] = (struct nlattr *)attr;
	return 0;
}

struct nlattr *nla_find(const struct nlattr *head, int len, int attrtype)
{
	const struct nlattr *attr;
	int left;

	nla_for_each_attr(attr, head, len, left)
		if (nla_type(attr) == attrtype)
			return (struct nlattr *)attr;
	return NULL;
}

int nla_memcpy(void *dest, const struct nlattr *src, int count)
{
	int bytes = min(count, nla_len(src));

	memcpy(dest, nla_data(src), bytes);
	return bytes;
}

/* ------------------------------------------------------------------------------- qdiscs */

/* red looks at what its first child, noop, has queued. */
void gnet_stats_add_queue(struct gnet_stats_queue *to,
			  const struct gnet_stats_queue __percpu *cpu,
			  const struct gnet_stats_queue *from)
{
}

struct Qdisc *qdisc_create_dflt(struct netdev_queue *queue, const struct Qdisc_ops *ops,
				unsigned int parent, struct netlink_ext_ack *extack)
{
	struct Qdisc *sch = cost_allocate(sizeof(*sch) + ops->priv_size);

	__skb_queue_head_init(&sch->gso_skb);
	__skb_queue_head_init(&sch->skb_bad_txq);
	sch->ops = ops;
	sch->enqueue = ops->enqueue;
	sch->dequeue = ops->dequeue;
	sch->dev_queue = queue;
	refcount_set(&sch->refcnt, 1);
	if (ops->init && ops->init(sch, NULL, extack))
		cost_fail("a child qdisc refuses to begin");
	return sch;
}

void qdisc_hash_add(struct Qdisc *sch, bool invisible)
{
}

void qdisc_reset(struct Qdisc *sch)
{
}

void qdisc_put(struct Qdisc *sch)
{
}

void qdisc_tree_reduce_backlog(struct Qdisc *sch, int n, int len)
{
}

int tcf_qevent_init(struct tcf_qevent *qe, struct Qdisc *sch,
		    enum flow_block_binder_type binder_type, struct nlattr *block_index_attr,
		    struct netlink_ext_ack *extack)
{
	return 0;
}

int tcf_qevent_validate_change(struct tcf_qevent *qe, struct nlattr *block_index_attr,
			       struct netlink_ext_ack *extack)
{
	return 0;
}

/* ------------------------------------------------------------------------------- actions */

int tcf_idr_check_alloc(struct tc_action_net *tn, u32 *index, struct tc_action **a, int bind)
{
	return 0;
}

int tcf_idr_create(struct tc_action_net *tn, u32 index, struct nlattr *est, struct tc_action **a,
		   const struct tc_action_ops *ops, int bind, bool cpustats, u32 flags)
{
	struct tc_action *action = cost_allocate(ops->size);

	action->ops = ops;
	action->cpu_bstats = cost_allocate(sizeof(*action->cpu_bstats));
	*a = action;
	return 0;
}

int tcf_action_check_ctrlact(int action, struct tcf_proto *tp, struct tcf_chain **newchain,
			     struct netlink_ext_ack *extack)
{
	return 0;
}

struct tcf_chain *tcf_action_set_ctrlact(struct tc_action *a, int action,
					 struct tcf_chain *newchain)
{
	a->tcfa_action = action;
	return NULL;
}

/* ------------------------------------------------------------------------------- modules */

struct module __this_module;

static struct Qdisc_ops *qdiscs;
static struct tc_action_ops *actions[8];

int register_qdisc(struct Qdisc_ops *ops)
{
	ops->next = qdiscs;
	qdiscs = ops;
	return 0;
}

int tcf_register_action(struct tc_action_ops *ops, struct pernet_operations *net)
{
	unsigned int i = 0;

	while (i < ARRAY_SIZE(actions) && actions[i])
		i++;
	if (i == ARRAY_SIZE(actions))
		cost_fail("too many actions");
	ops->net_id = 1;
	actions[i] = ops;
	return 0;
}

struct Qdisc_ops *cost_qdisc_ops(const char *kind)
{
	struct Qdisc_ops *ops;

	for (ops = qdiscs; ops; ops = ops->next)
		if (!strcmp(ops->id, kind))
			return ops;
	return NULL;
}

struct tc_action_ops *cost_action_ops(const char *kind)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(actions) && actions[i]; i++)
		if (!strcmp(actions[i]->kind, kind))
			return actions[i];
	return NULL;
}
