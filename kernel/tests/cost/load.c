// SPDX-License-Identifier: GPL-2.0
/*
 * Set a qdisc or marker up and send packets of many flows through it.
 *
 * Qdiscs get 20 packets for every 19 that leave: each finds the queue at which it drops one in
 * twenty, which is between its thresholds. Half of the packets are IN. Flow and class of each are
 * drawn at random; it has 1000 bytes of IP and leaves by a 10 Mbit/s link, after 0.8 ms.
 */
#include <linux/ip.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/netlink.h>
#include <net/netns/generic.h>
#include <net/pkt_cls.h>
#include <net/red.h>

#include <uapi/frio.h>
#include <uapi/rio.h>
#include <uapi/tcpf.h>
#include <uapi/token.h>

#include "cost.h"
#include "stand_in.h"

#define LENGTH		1000
#define PAYLOAD		(LENGTH - 40)
#define PACKET_NS	800000
#define INTERVAL_NS	400000000
#define QUEUED_MAX	1024
#define TABLE		65536
#define AF11		10
#define AF12		12

int init_sch_red(void);
int init_sch_rio(void);
int init_sch_frio(void);
int init_act_tcpf(void);
int init_act_token(void);

static struct sk_buff *stock;		/* packets that are not queued */
static u32 *sequence;			/* of each flow */

/* ----------------------------------------------------------------------------- attributes */

static struct {
	struct nlattr head;
	u8 body[2048];
} options __aligned(8);

static void put(int type, const void *data, int bytes)
{
	struct nlattr *attr = (void *)&options + NLA_ALIGN(options.head.nla_len);

	attr->nla_type = type;
	attr->nla_len = NLA_HDRLEN + bytes;
	memcpy(nla_data(attr), data, bytes);
	options.head.nla_len = NLA_ALIGN(options.head.nla_len) + NLA_ALIGN(attr->nla_len);
}

static void put_u32(int type, u32 value)
{
	put(type, &value, sizeof(value));
}

static void put_u8(int type, u8 value)
{
	put(type, &value, sizeof(value));
}

static void clear_options(void)
{
	memset(&options, 0, sizeof(options));
	options.head.nla_len = NLA_HDRLEN;
	options.head.nla_type = TCA_OPTIONS | NLA_F_NESTED;
}

/* ------------------------------------------------------------------------------- packets */

static u32 next_random(void)
{
	static u64 state = 88172645463325252ULL;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 32;
}

static struct sk_buff *make_packet(void)
{
	struct sk_buff *skb = cost_allocate(sizeof(*skb));
	u32 bytes = 2048;

	skb->head = cost_allocate(bytes + sizeof(struct skb_shared_info));
	skb->data = skb->head + 64;
	skb->end = bytes;
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->len = ETH_HLEN + LENGTH;
	skb_set_tail_pointer(skb, skb->len);
	skb->protocol = htons(ETH_P_IP);
	qdisc_skb_cb(skb)->pkt_len = skb->len;
	return skb;
}

/* A data packet, or the ACK for all that the flow has sent. */
static void fill(struct sk_buff *skb, u32 flow, u8 dscp, bool ack)
{
	struct iphdr *ip = ip_hdr(skb);
	struct tcphdr *tcp = (void *)ip + sizeof(*ip);
	__be32 here = htonl(0x0a000001 + (flow >> 12)), there = htonl(0x0a000302);
	__be16 port = htons(20000 + (flow & 0xfff));

	memset(ip, 0, sizeof(*ip) + sizeof(*tcp));
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = dscp << 2;
	ip->tot_len = htons(ack ? 40 : LENGTH);
	ip->ttl = 64;
	ip->protocol = IPPROTO_TCP;
	ip->saddr = ack ? there : here;
	ip->daddr = ack ? here : there;
	tcp->source = ack ? htons(5001) : port;
	tcp->dest = ack ? port : htons(5001);
	tcp->doff = 5;
	tcp->ack = 1;
	if (ack) {
		tcp->ack_seq = htonl(sequence[flow]);
	} else {
		tcp->seq = htonl(sequence[flow]);
		sequence[flow] += PAYLOAD;
	}
	ip->check = ip_fast_csum((u8 *)ip, ip->ihl);
}

/* -------------------------------------------------------------------------------- qdiscs */

static void red_options(void)
{
	struct tc_red_qopt q = {
		.limit = 500000, .qth_min = 10000, .qth_max = 200000, .Wlog = 9, .Plog = 20,
		.Scell_log = 20,
	};
	u8 stab[RED_STAB_SIZE] = { 0 };

	put(TCA_RED_PARMS, &q, sizeof(q));
	put(TCA_RED_STAB, stab, sizeof(stab));
	put_u32(TCA_RED_MAX_P, 1 << 30);
}

/* As red for OUT; IN, half of the packets, at half of the backlog. */
static void rio_options(void)
{
	put_u32(TCA_PRECEDENCE_LIMIT, 500000);
	put_u32(TCA_PRECEDENCE_OUT_MIN, 10000);
	put_u32(TCA_PRECEDENCE_IN_MIN, 5000);
	put_u32(TCA_PRECEDENCE_OUT_MAX, 200000);
	put_u32(TCA_PRECEDENCE_IN_MAX, 200000);
	put_u32(TCA_PRECEDENCE_OUT_PROBABILITY, 1 << 30);
	put_u32(TCA_PRECEDENCE_IN_PROBABILITY, 1 << 30);
}

static void put_options(const char *kind)
{
	clear_options();
	if (!strcmp(kind, "red"))
		red_options();
	else
		rio_options();
}

static struct Qdisc *make_qdisc(const char *kind)
{
	static struct netdev_queue queue;
	static struct net_device device;
	static struct Qdisc_ops bare;
	struct Qdisc_ops *ops = cost_qdisc_ops(kind);
	struct Qdisc *sch;

	put_options(kind);
	bare = *ops;
	bare.init = NULL;
	queue.dev = &device;
	sch = qdisc_create_dflt(&queue, &bare, TC_H_ROOT, NULL);
	sch->ops = ops;
	rcu_assign_pointer(queue.qdisc, sch);
	rcu_assign_pointer(queue.qdisc_sleeping, sch);
	if (ops->init(sch, &options.head, NULL))
		cost_fail("the qdisc refuses its options");
	return sch;
}

/* barrier(): the function is left when what it calls has returned, and not before. */
static noinline int cost_counted_enqueue(struct Qdisc *sch, struct sk_buff *skb,
					 struct sk_buff **to_free)
{
	int verdict = sch->enqueue(skb, sch, to_free);

	barrier();
	return verdict;
}

static noinline struct sk_buff *cost_counted_dequeue(struct Qdisc *sch)
{
	struct sk_buff *skb = sch->dequeue(sch);

	barrier();
	return skb;
}

static void give_back(struct sk_buff *skb)
{
	skb->next = stock;
	stock = skb;
}

/* Before counting begins nothing is different but the names of the functions. */
static noinline void qdisc_step(struct Qdisc *sch, u32 i, u32 flows, bool counted,
				struct cost_result *result)
{
	struct sk_buff *skb = stock, *to_free = NULL;
	bool in = next_random() & 1;
	int verdict;

	if (!skb)
		cost_fail("the queue has outgrown what was expected");
	stock = skb->next;
	skb->next = NULL;
	fill(skb, next_random() % flows, in ? AF11 : AF12, false);
	verdict = counted ? cost_counted_enqueue(sch, skb, &to_free) :
			    sch->enqueue(skb, sch, &to_free);
	if (to_free)
		give_back(to_free);
	if (counted) {
		result->dropped += verdict != NET_XMIT_SUCCESS;
		result->in += in;
		result->backlog += sch->qstats.backlog;
	}
	if (i % 20 == 0)
		return;
	cost_now += PACKET_NS;
	skb = counted ? cost_counted_dequeue(sch) : sch->dequeue(sch);
	if (skb)
		give_back(skb);
}

static void run_qdisc(const struct cost_order *order, struct cost_result *result)
{
	struct Qdisc *sch = make_qdisc(order->kind);
	u32 i;

	for (i = 0; i < QUEUED_MAX; i++)
		give_back(make_packet());
	for (i = 0; i < order->warm; i++)
		qdisc_step(sch, i, order->flows, false, result);
	for (i = 0; i < order->packets; i++)
		qdisc_step(sch, i, order->flows, true, result);
}

/* ------------------------------------------------------------------------------- markers */

static const char *const token_modes[] = { "token_reset", "token_continuous", "token_flow" };

static struct tc_action *make_marker(const char *kind)
{
	static void *generic[4];
	static struct tc_action_net tn;
	struct tc_marker parms = { .index = 1 };
	struct net *net = cost_allocate(sizeof(*net));
	struct tc_action *action = NULL;
	struct tc_action_ops *ops;
	u8 mode;

	clear_options();
	put(TCA_MARKER_PARMS, &parms, sizeof(parms));
	put_u32(TCA_MARKER_INTERVAL, INTERVAL_NS / 1000);
	put_u32(TCA_MARKER_TOKENS, 296000);
	put_u32(TCA_MARKER_FLOWS, TABLE);
	for (mode = 0; mode < ARRAY_SIZE(token_modes); mode++)
		if (!strcmp(kind, token_modes[mode]))
			put_u8(TCA_TOKEN_MODE, mode);
	ops = cost_action_ops(strncmp(kind, "token", 5) ? "tcpf" : "token");
	generic[1] = &tn;
	rcu_assign_pointer(net->gen, (struct net_generic *)generic);
	if (ops->init(net, &options.head, NULL, &action, NULL, 0, NULL) != ACT_P_CREATED)
		cost_fail("the marker refuses its options");
	return action;
}

static noinline int cost_counted_mark(struct sk_buff *skb, struct tc_action *action)
{
	int control = action->ops->act(skb, action, NULL);

	barrier();
	return control;
}

static u8 mark(struct sk_buff *skb, struct tc_action *action, u32 flow, bool ack, bool counted)
{
	fill(skb, flow, 0, ack);
	skb->tc_at_ingress = !ack;
	if (counted)
		cost_counted_mark(skb, action);
	else
		action->ops->act(skb, action, NULL);
	return ip_hdr(skb)->tos >> 2;
}

/*
 * What is counted is a packet for which no tick is due: another at the same instant has seen to
 * that. Of a tick it is the packet that finds it, after all flows have sent one in the interval.
 */
static void run_marker(const struct cost_order *order, struct cost_result *result)
{
	bool acks = !strcmp(order->kind, "tcpf_ack"), ticks = !strcmp(order->kind, "tcpf_tick");
	struct tc_action *action = make_marker(order->kind);
	struct sk_buff *skb = make_packet();
	u32 i, flow;

	for (i = 0; i < order->warm; i++) {
		cost_now += PACKET_NS;
		mark(skb, action, i % order->flows, false, false);
		mark(skb, action, i % order->flows, true, false);
	}
	for (i = 0; i < order->packets; i++) {
		for (flow = 0; ticks && flow < order->flows; flow++)
			mark(skb, action, flow, false, false);
		cost_now += ticks ? INTERVAL_NS : 2 * PACKET_NS;
		flow = next_random() % order->flows;
		if (!ticks)
			result->in += mark(skb, action, flow, false, false) == AF11;
		flow = next_random() % order->flows;
		result->in += mark(skb, action, flow, acks, true) == AF11;
		mark(skb, action, flow, !acks, false);
	}
}

void cost_run(const struct cost_order *order, struct cost_result *result)
{
	sequence = cost_allocate(order->flows * sizeof(*sequence));
	if (init_sch_red() || init_sch_rio() || init_sch_frio() || init_act_tcpf() ||
	    init_act_token())
		cost_fail("a module refuses to begin");
	if (cost_qdisc_ops(order->kind))
		run_qdisc(order, result);
	else if (!strncmp(order->kind, "token_", 6) || !strncmp(order->kind, "tcpf", 4))
		run_marker(order, result);
	else
		cost_fail("KIND is one of red, rio, frio, token_reset, token_continuous, "
			  "token_flow, tcpf, tcpf_ack, tcpf_tick");
}
