// SPDX-License-Identifier: GPL-2.0
/* The parser for Python. */
#include <net/packet_parse.h>

struct drive_parsed {
	u8 key[sizeof(struct flow_key)];
	u32 len;
	u32 seq;
	u32 ack_seq;
	u32 payload;
	u16 mss;
	u8 flags;
	u8 dscp;
	u8 timestamps;
	u8 fragment;
};

int drive_parse(const u8 *data, u32 reach, u32 packet_len, struct drive_parsed *to)
{
	struct packet_info info;
	enum packet_kind kind = packet_parse(&info, data, reach, packet_len);

	memcpy(to->key, &info.key, sizeof(to->key));
	to->len = info.len;
	to->seq = info.seq;
	to->ack_seq = info.ack_seq;
	to->payload = info.payload;
	to->mss = info.mss;
	to->flags = info.flags;
	to->dscp = info.dscp;
	to->timestamps = info.timestamps;
	to->fragment = info.fragment;
	return kind;
}

/* The key of a flow; addresses: source and destination, as in the header. */
void drive_key(u8 version, u8 protocol, const u8 *addresses, const u8 *ports, u8 *to)
{
	struct flow_key key;

	if (version == 4)
		flow_key_ipv4(&key, protocol, addresses);
	else
		flow_key_ipv6(&key, protocol, addresses);
	flow_key_ports(&key, ports);
	memcpy(to, &key, sizeof(key));
}
