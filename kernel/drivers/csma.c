// SPDX-License-Identifier: GPL-2.0
/*
 * Links of type csma: stations on one half-duplex Ethernet wire. include/net/csma_cd.h says when a
 * frame is sent; here are the stations' rings, the clock, delivery, and netlink.
 *
 * The first station makes a wire, others join it by `link`; it is gone with its last station. A
 * frame is handed to the others at the instant its last bit arrives, computed from what was due
 * and never from when the timer fired.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/prandom.h>
#include <linux/random.h>
#include <linux/skbuff.h>
#include <net/rtnetlink.h>

#include <compat.h>
#include <net/csma_cd.h>
#include <uapi/csma.h>

#define CSMA_STATIONS		64
#define CSMA_RATE_DEFAULT	10	/* Mbit/s */
#define CSMA_RING_DEFAULT	16
#define CSMA_RING_MOST		4096
#define CSMA_PROPAGATION_MOST	25600	/* ns: half a slot of 10 Mbit/s; of 100 a tenth of that */

struct csma_wire {
	spinlock_t lock;	/* of all below, and of the stations' rings */
	struct hrtimer timer;
	struct csma_cd_params params;
	struct csma_cd_wire mac;
	struct csma_cd_station station[CSMA_STATIONS];
	struct net_device *device[CSMA_STATIONS];
	u32 stations;		/* places that are or were taken */
	u32 users;		/* stations, and a request that makes one; under RTNL */
	u32 rate;		/* Mbit/s */
	u64 made;		/* ns */
	u64 seed;
	struct rnd_state random;
};

struct csma_station {
	struct csma_wire *wire;
	u32 place;		/* in the wire's arrays */
	u32 ring;		/* frames, the one on the wire included */
	struct sk_buff_head frames;
	u64 offered;		/* ns, when the first frame could have begun */
	u64 deferred;		/* frames that found the wire busy */
	u64 collisions;
	u64 excessive;		/* frames given up */
};

static u64 csma_now(void)
{
	return ktime_get_ns();
}

/* Hand a station's first frame to the wire, or nothing. */
static void csma_offer(struct csma_station *own, u64 at)
{
	struct csma_cd_station *mac = &own->wire->station[own->place];
	const struct sk_buff *skb = skb_peek(&own->frames);

	if (skb) {
		csma_cd_offer(mac, skb->len, at);
		own->offered = at;
	}
}

/* Take the first frame off a ring; there is room for another one. */
static struct sk_buff *csma_take(struct csma_station *own, struct net_device *dev)
{
	struct sk_buff *skb = __skb_dequeue(&own->frames);

	netif_wake_queue(dev);
	return skb;
}

static void csma_receive(struct net_device *dev, struct sk_buff *skb)
{
	unsigned int length = skb->len;

	if (!netif_running(dev)) {
		kfree_skb(skb);
		return;
	}
	skb_scrub_packet(skb, true);
	skb->protocol = eth_type_trans(skb, dev);
	if (skb->pkt_type == PACKET_OTHERHOST && !(dev->flags & IFF_PROMISC)) {
		kfree_skb(skb);	/* a card filters: the stack sees what is for it */
		return;
	}
	if (netif_rx(skb) == NET_RX_SUCCESS)
		dev_sw_netstats_rx_add(dev, length);	/* else netif_rx() has counted it */
}

/* A frame has arrived at every other station. */
static void csma_deliver(struct csma_wire *wire, u32 sender, struct sk_buff *skb)
{
	struct net_device *last = NULL;

	for (u32 i = 0; i < wire->stations; i++) {
		struct net_device *dev = wire->device[i];
		struct sk_buff *copy;

		if (!dev || i == sender)
			continue;
		copy = last ? skb_clone(skb, GFP_ATOMIC) : NULL;
		if (copy)
			csma_receive(last, copy);
		last = dev;
	}
	if (last)
		csma_receive(last, skb);
	else
		kfree_skb(skb);
}

static void csma_sent(struct csma_wire *wire)
{
	u32 sender = wire->mac.sender;
	struct net_device *dev = wire->device[sender];
	struct csma_station *own = netdev_priv(dev);
	struct sk_buff *skb = csma_take(own, dev);

	dev_sw_netstats_tx_add(dev, 1, skb->len);
	csma_offer(own, wire->mac.end);
	skb_orphan(skb);
	csma_deliver(wire, sender, skb);
}

static void csma_collided(struct csma_wire *wire)
{
	for (u32 i = 0; i < wire->stations; i++) {
		struct csma_cd_station *mac = &wire->station[i];
		struct csma_station *own;

		if (!mac->collided)
			continue;
		own = netdev_priv(wire->device[i]);
		own->collisions++;
		if (csma_cd_back_off(&wire->params, &wire->mac, mac,
				     prandom_u32_state(&wire->random)))
			continue;
		own->excessive++;
		kfree_skb(csma_take(own, wire->device[i]));
		csma_offer(own, wire->mac.end);
	}
}

static void csma_begun(struct csma_wire *wire)
{
	u32 sender = wire->mac.sender;
	struct csma_station *own = netdev_priv(wire->device[sender]);

	if (!wire->station[sender].attempts && wire->mac.begin > own->offered)
		own->deferred++;
}

/* Let everything happen that was due by now, each at its own instant. */
static void csma_run(struct csma_wire *wire, u64 now)
{
	while (csma_cd_next(&wire->params, &wire->mac, wire->station, wire->stations) <= now) {
		switch (csma_cd_step(&wire->params, &wire->mac, wire->station, wire->stations)) {
		case CSMA_CD_BEGUN:
			csma_begun(wire);
			break;
		case CSMA_CD_JAMMED:
			break;
		case CSMA_CD_SENT:
			csma_sent(wire);
			break;
		case CSMA_CD_COLLIDED:
			csma_collided(wire);
			break;
		}
	}
}

/* Have the timer fire when something happens next. */
static void csma_wait(struct csma_wire *wire)
{
	u64 next = csma_cd_next(&wire->params, &wire->mac, wire->station, wire->stations);

	if (next != CSMA_CD_NEVER)
		hrtimer_start(&wire->timer, ns_to_ktime(next), HRTIMER_MODE_ABS_SOFT);
}

static enum hrtimer_restart csma_timer(struct hrtimer *timer)
{
	struct csma_wire *wire = container_of(timer, struct csma_wire, timer);

	spin_lock(&wire->lock);
	csma_run(wire, csma_now());
	csma_wait(wire);
	spin_unlock(&wire->lock);
	return HRTIMER_NORESTART;
}

static netdev_tx_t csma_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct csma_station *own = netdev_priv(dev);
	struct csma_wire *wire = own->wire;
	u64 now;

	spin_lock(&wire->lock);
	now = csma_now();
	csma_run(wire, now);
	if (skb_queue_len(&own->frames) >= own->ring) {	/* nobody should have called */
		netif_stop_queue(dev);
		spin_unlock(&wire->lock);
		return NETDEV_TX_BUSY;
	}
	__skb_queue_tail(&own->frames, skb);
	if (skb_queue_len(&own->frames) >= own->ring)
		netif_stop_queue(dev);
	if (skb_queue_len(&own->frames) == 1) {
		csma_offer(own, now);
		csma_run(wire, now);
		csma_wait(wire);
	}
	spin_unlock(&wire->lock);
	return NETDEV_TX_OK;
}

static int csma_open(struct net_device *dev)
{
	netif_start_queue(dev);
	return 0;
}

static int csma_stop(struct net_device *dev)
{
	struct csma_station *own = netdev_priv(dev);
	struct csma_wire *wire = own->wire;
	struct sk_buff *skb;
	u64 now;

	netif_stop_queue(dev);
	spin_lock_bh(&wire->lock);
	now = csma_now();
	csma_run(wire, now);
	csma_cd_leave(&wire->params, &wire->mac, wire->station, wire->stations, own->place, now);
	while ((skb = __skb_dequeue(&own->frames))) {
		dev_core_stats_tx_dropped_inc(dev);
		kfree_skb(skb);
	}
	csma_wait(wire);
	spin_unlock_bh(&wire->lock);
	return 0;
}

static void csma_get_stats64(struct net_device *dev, struct rtnl_link_stats64 *stats)
{
	const struct csma_station *own = netdev_priv(dev);

	dev_fetch_sw_netstats(stats, dev->tstats);
	stats->collisions = READ_ONCE(own->collisions);
	stats->tx_aborted_errors = READ_ONCE(own->excessive);
	stats->tx_errors = stats->tx_aborted_errors;
}

/* Segments are the stack's to make: a frame is one. */
static netdev_features_t csma_fix_features(struct net_device *dev, netdev_features_t features)
{
	return features & ~NETIF_F_ALL_TSO;
}

/* The wire goes with its last station. */
static void csma_put(struct csma_wire *wire)
{
	if (--wire->users)
		return;
	hrtimer_cancel(&wire->timer);
	kfree(wire);
}

/* Onto the wire that newlink chose. */
static int csma_join(struct net_device *dev)
{
	struct csma_station *own = netdev_priv(dev);
	struct csma_wire *wire = own->wire;
	u32 place = 0;

	while (place < wire->stations && wire->device[place])
		place++;
	if (place == CSMA_STATIONS)
		return -ENOSPC;
	dev->tstats = netdev_alloc_pcpu_stats(struct pcpu_sw_netstats);
	if (!dev->tstats)
		return -ENOMEM;
	spin_lock_bh(&wire->lock);
	own->place = place;
	wire->device[place] = dev;
	wire->station[place] = (struct csma_cd_station){ .heard = wire->mac.end };
	wire->stations = max(wire->stations, place + 1);
	spin_unlock_bh(&wire->lock);
	wire->users++;
	return 0;
}

static void csma_part(struct net_device *dev)
{
	struct csma_station *own = netdev_priv(dev);
	struct csma_wire *wire = own->wire;

	spin_lock_bh(&wire->lock);
	wire->device[own->place] = NULL;
	spin_unlock_bh(&wire->lock);
	csma_put(wire);
}

static void csma_free(struct net_device *dev)
{
	free_percpu(dev->tstats);
}

static const struct net_device_ops csma_netdev_ops = {
	.ndo_init = csma_join,
	.ndo_uninit = csma_part,
	.ndo_open = csma_open,
	.ndo_stop = csma_stop,
	.ndo_start_xmit = csma_xmit,
	.ndo_get_stats64 = csma_get_stats64,
	.ndo_fix_features = csma_fix_features,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static int csma_get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *settings)
{
	const struct csma_station *own = netdev_priv(dev);

	settings->base.speed = own->wire->rate;
	settings->base.duplex = DUPLEX_HALF;
	settings->base.port = PORT_TP;
	settings->base.autoneg = AUTONEG_DISABLE;
	return 0;
}

static void csma_get_ringparam(struct net_device *dev, struct ethtool_ringparam *ring,
			       struct kernel_ethtool_ringparam *kernel_ring,
			       struct netlink_ext_ack *extack)
{
	const struct csma_station *own = netdev_priv(dev);

	ring->tx_max_pending = CSMA_RING_MOST;
	ring->tx_pending = own->ring;
}

static const struct ethtool_ops csma_ethtool_ops = {
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = csma_get_link_ksettings,
	.get_ringparam = csma_get_ringparam,
};

static void csma_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &csma_netdev_ops;
	dev->ethtool_ops = &csma_ethtool_ops;
	dev->needs_free_netdev = true;
	dev->priv_destructor = csma_free;
	dev->max_mtu = ETH_DATA_LEN;
	/* A checksum that nobody took down cannot be wrong. */
	dev->features = NETIF_F_HW_CSUM | NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA;
	/* TSO is never on, but whoever switches it off must not be refused. */
	dev->hw_features = dev->features | NETIF_F_ALL_TSO;
	skb_queue_head_init(&((struct csma_station *)netdev_priv(dev))->frames);
}

static const struct nla_policy csma_policy[CSMA_ATTRIBUTES] = {
	[CSMA_RATE] = { .type = NLA_U32 },
	[CSMA_PROPAGATION] = { .type = NLA_U32 },
	[CSMA_RING] = NLA_POLICY_RANGE(NLA_U32, 1, CSMA_RING_MOST),
	[CSMA_SEED] = { .type = NLA_U64 },
};

static u32 csma_given(struct nlattr *data[], int attribute, u32 otherwise)
{
	return data && data[attribute] ? nla_get_u32(data[attribute]) : otherwise;
}

static int csma_validate(struct nlattr *tb[], struct nlattr *data[],
			 struct netlink_ext_ack *extack)
{
	u32 rate = csma_given(data, CSMA_RATE, CSMA_RATE_DEFAULT);
	u32 propagation = csma_given(data, CSMA_PROPAGATION, 0);

	if (tb[IFLA_ADDRESS] && nla_len(tb[IFLA_ADDRESS]) != ETH_ALEN)
		return -EINVAL;
	if (tb[IFLA_ADDRESS] && !is_valid_ether_addr(nla_data(tb[IFLA_ADDRESS])))
		return -EADDRNOTAVAIL;
	if (rate != 10 && rate != 100) {
		NL_SET_ERR_MSG(extack, "the rate of a half-duplex wire is 10mbit or 100mbit");
		return -EINVAL;
	}
	if (propagation > CSMA_PROPAGATION_MOST * 10 / rate) {
		NL_SET_ERR_MSG(extack, "the propagation is at most half a slot: 25.6us, or 2.56us");
		return -EINVAL;
	}
	if (tb[IFLA_LINK] && data &&
	    (data[CSMA_RATE] || data[CSMA_PROPAGATION] || data[CSMA_SEED])) {
		NL_SET_ERR_MSG(extack,
			       "a station that joins has the wire's rate, propagation and seed");
		return -EINVAL;
	}
	return 0;
}

static struct csma_wire *csma_make(struct nlattr *data[])
{
	struct csma_wire *wire = kzalloc(sizeof(*wire), GFP_KERNEL);

	if (!wire)
		return NULL;
	spin_lock_init(&wire->lock);
	hrtimer_setup(&wire->timer, csma_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	wire->rate = csma_given(data, CSMA_RATE, CSMA_RATE_DEFAULT);
	wire->params.bit = 1000 / wire->rate;
	wire->params.propagation = csma_given(data, CSMA_PROPAGATION, 0);
	wire->made = csma_now();
	wire->seed = data && data[CSMA_SEED] ? nla_get_u64(data[CSMA_SEED]) : get_random_u64();
	prandom_seed_state(&wire->random, wire->seed);
	return wire;
}

/* The wire that a station is to join. */
static struct csma_wire *csma_found(struct net *net, const struct nlattr *link,
				    struct netlink_ext_ack *extack)
{
	struct net_device *other = __dev_get_by_index(net, nla_get_u32(link));

	if (!other)
		return ERR_PTR(-ENODEV);
	if (other->netdev_ops != &csma_netdev_ops) {
		NL_SET_ERR_MSG(extack, "the link to join is none of type csma");
		return ERR_PTR(-EINVAL);
	}
	return ((struct csma_station *)netdev_priv(other))->wire;
}

static int csma_newlink(struct net *net, struct net_device *dev, struct nlattr *tb[],
			struct nlattr *data[], struct netlink_ext_ack *extack)
{
	struct csma_station *own = netdev_priv(dev);
	struct csma_wire *wire;
	int err;

	wire = tb[IFLA_LINK] ? csma_found(net, tb[IFLA_LINK], extack) : csma_make(data);
	if (IS_ERR_OR_NULL(wire))
		return wire ? PTR_ERR(wire) : -ENOMEM;
	own->wire = wire;
	own->ring = csma_given(data, CSMA_RING, CSMA_RING_DEFAULT);
	if (!tb[IFLA_ADDRESS])
		eth_hw_addr_random(dev);
	wire->users++;
	err = register_netdevice(dev);
	if (err == -ENOSPC)
		NL_SET_ERR_MSG(extack, "there is no room for another station on the wire");
	csma_put(wire);
	return err;
}

COMPAT_NEWLINK(csma_newlink)

static size_t csma_get_size(const struct net_device *dev)
{
	return 3 * nla_total_size(sizeof(u32)) + nla_total_size_64bit(sizeof(u64));
}

static int csma_fill_info(struct sk_buff *skb, const struct net_device *dev)
{
	const struct csma_station *own = netdev_priv(dev);

	if (nla_put_u32(skb, CSMA_RATE, own->wire->rate) ||
	    nla_put_u32(skb, CSMA_PROPAGATION, own->wire->params.propagation) ||
	    nla_put_u32(skb, CSMA_RING, own->ring) ||
	    nla_put_u64_64bit(skb, CSMA_SEED, own->wire->seed, CSMA_PAD))
		return -EMSGSIZE;
	return 0;
}

static size_t csma_get_xstats_size(const struct net_device *dev)
{
	return sizeof(struct csma_xstats);
}

static int csma_fill_xstats(struct sk_buff *skb, const struct net_device *dev)
{
	const struct csma_station *own = netdev_priv(dev);
	struct csma_wire *wire = own->wire;
	struct csma_xstats stats;
	u64 now;

	spin_lock_bh(&wire->lock);
	now = csma_now();
	csma_run(wire, now);
	csma_wait(wire);
	if (wire->mac.state != CSMA_CD_IDLE)
		now = wire->mac.begin;
	stats = (struct csma_xstats){
		.collisions = own->collisions,
		.deferred = own->deferred,
		.excessive = own->excessive,
		.busy = wire->mac.busy,
		.contention = wire->mac.contention,
		.idle = now - wire->made - wire->mac.busy - wire->mac.contention,
	};
	spin_unlock_bh(&wire->lock);
	return nla_put(skb, IFLA_INFO_XSTATS, sizeof(stats), &stats);
}

static struct rtnl_link_ops csma_link_ops = {
	.kind = "csma",
	.priv_size = sizeof(struct csma_station),
	.setup = csma_setup,
	.validate = csma_validate,
	.newlink = compat_csma_newlink,
	.policy = csma_policy,
	.maxtype = CSMA_MAX,
	.get_size = csma_get_size,
	.fill_info = csma_fill_info,
	.get_xstats_size = csma_get_xstats_size,
	.fill_xstats = csma_fill_xstats,
};

static int __init csma_init(void)
{
	return rtnl_link_register(&csma_link_ops);
}

static void __exit csma_exit(void)
{
	rtnl_link_unregister(&csma_link_ops);
}

module_init(csma_init);
module_exit(csma_exit);
MODULE_ALIAS_RTNL_LINK("csma");
MODULE_DESCRIPTION("Stations on one half-duplex Ethernet wire (CSMA/CD)");
MODULE_LICENSE("GPL");
