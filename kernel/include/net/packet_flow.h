/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Flow and codepoint of a plain packet, for queues: what packet_parse.h says, and nothing else of
 * it, with a fifth of the instructions.
 *
 * Nearly every packet is IPv4 without options, whole, and TCP or UDP; the rest is left to
 * packet_parse(). It is not asked whether lengths contradict each other: to a queue a packet with a
 * damaged header is a packet of its flow.
 */
#ifndef NET_PACKET_FLOW_H
#define NET_PACKET_FLOW_H

#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>
#include <net/flow_key.h>
#include <net/packet_parse.h>

struct packet_plain {
	struct flow_ipv4 flow;
	u8 dscp;
};

/* data: reach bytes from the IP header on. False: not that plain, and nothing is said. */
static inline bool packet_flow_plain(struct packet_plain *plain, const u8 *data, u32 reach)
{
	__be16 fragment;

	if (reach < 28 || data[0] != 0x45)
		return false;
	memcpy(&fragment, data + 6, sizeof(fragment));
	if (fragment & cpu_to_be16(0x3fff))	/* more fragments, or an offset */
		return false;
	if (data[9] == PACKET_PROTOCOL_TCP)
		plain->flow.kind = flow_key_kind(4, PACKET_PROTOCOL_TCP);
	else if (data[9] == PACKET_PROTOCOL_UDP)
		plain->flow.kind = flow_key_kind(4, PACKET_PROTOCOL_UDP);
	else
		return false;
	memcpy(&plain->flow.addresses, data + 12, sizeof(plain->flow.addresses));
	memcpy(&plain->flow.ports, data + 20, sizeof(plain->flow.ports));
	plain->dscp = data[1] >> 2;
	return true;
}

#endif /* NET_PACKET_FLOW_H */
