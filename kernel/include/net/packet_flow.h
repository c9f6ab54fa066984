/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flow and codepoint of a packet, for queues: the answer of packet_parse.h, and nothing else of it.
 *
 * Nearly every packet is IPv4 without options, whole, and TCP or UDP. packet_flow_plain() reads
 * such a one with a quarter of the instructions, and takes it only if packet_parse() would find no
 * fault with it: everything else is left to that.
 */
#ifndef _NET_PACKET_FLOW_H
#define _NET_PACKET_FLOW_H

#include <linux/types.h>
#include <net/flow_key.h>
#include <net/packet_parse.h>

struct packet_flow {
	struct flow_key key;
	u8 dscp;
};

/*
 * data: the packet from its IP header on, of which reach bytes may be read; packet_len: how long it
 * is, reach or more. False: not that plain, and nothing is said.
 */
static inline bool packet_flow_plain(struct packet_flow *flow, const u8 *data, u32 reach,
				     u32 packet_len)
{
	u32 len, end;

	if (reach < 40 || data[0] != 0x45 || ((data[6] & 0x3f) | data[7]))
		return false;
	if (data[9] == PACKET_PROTOCOL_TCP) {
		u32 header = (data[32] >> 4) * 4;

		if (header < 20)
			return false;
		end = 20 + header;
	} else if (data[9] == PACKET_PROTOCOL_UDP) {
		end = 28;
	} else {
		return false;
	}
	len = packet_be16(data + 2);
	if (end > reach || end > len || len > packet_len)
		return false;
	flow_key_ipv4(&flow->key, data[9], data + 12);
	flow_key_ports(&flow->key, data + 20);
	flow->dscp = data[1] >> 2;
	return true;
}

/* The same of what packet_parse() said. What cannot be read is a flow of its own, codepoint 0. */
static inline void packet_flow_parsed(struct packet_flow *flow, enum packet_kind kind,
				      const struct packet_info *info)
{
	if (kind == PACKET_UNPARSEABLE) {
		flow_key_none(&flow->key);
		flow->dscp = 0;
		return;
	}
	flow->key = info->key;
	flow->dscp = info->dscp;
}

#endif
