// SPDX-License-Identifier: GPL-2.0
/*
 * tcpf-source - UDP packets on a schedule that was drawn beforehand.
 *
 * Bursts of exponential length with exponential gaps, or one packet every
 * period.  In a User-Mode Linux guest a system call costs a ptrace round trip
 * on the host, so a burst is handed to the kernel as a whole, and the link that
 * it leaves by spaces its packets: that link's rate is --rate, and its queue
 * holds SEND_BUFFER.
 *
 *   tcpf-source --to ADDR --seed N --name NAME --until S --packet BYTES
 *               (--burst NS --gap NS --rate BITS | --every NS) --sample L=S,...
 *
 * The schedule is a function of seed, name and these words alone; see
 * --print-schedule.  Nothing is received, and nobody need answer.
 */
#define _GNU_SOURCE
#include "instant.h"
#include "stream.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HEADERS_V4	28		/* IP and UDP */
#define HEADERS_V6	48
#define FRAME_HEADER	14		/* as tc weighs a packet */
#define LONGEST_PACKET	9000
#define LONGEST		(86400 * NSEC)
#define AT_ONCE		1024		/* the most messages one sendmmsg takes */
/*
 * What of a burst may wait in the link's queue.  A longer one blocks until half
 * of that has gone, so that the link never runs dry.  The kernel doubles it.
 */
#define SEND_BUFFER	(2 * 1024 * 1024)

struct config {
	union address to;
	int port;
	int64_t epoch;		/* ns, CLOCK_REALTIME */
	int64_t until;		/* ns after the epoch */
	uint64_t seed;
	const char *name;
	int packet;		/* bytes, IP header included */
	int tos;
	int64_t burst, gap;	/* mean lengths, ns; 0: one packet every period */
	int64_t rate;		/* of the link, bit/s */
	int64_t every;		/* period, ns */
	bool print_schedule;
	struct sample samples[MAX_SAMPLES];
	int n_samples;
};

struct burst {
	int64_t at;		/* ns after the epoch */
	int64_t packets;	/* may be 0 */
};

/* What had been due by some instant, and how that went. */
struct counts {
	int64_t packets;
	int64_t bursts;		/* of at least one packet */
	int64_t errors;
	int error;		/* errno of the first */
	int64_t late;		/* the most that a burst was late, ns */
};

static struct config cfg = { .port = 9, .name = "", .packet = 1500 };
static struct stream stream;
static struct counts counts;
static int fd;

const char program_name[] = "tcpf-source";

static void usage(FILE *to)
{
	fprintf(to,
"usage: tcpf-source --to ADDR --seed N --name NAME --until S --packet BYTES\n"
"                   (--burst NS --gap NS --rate BITS | --every NS) [--sample L=S,...]\n"
"\n"
"  --to ADDR        where the packets go\n"
"  --port P         UDP port (default 9)\n"
"  --epoch S        CLOCK_REALTIME second that all other times count from\n"
"                   (default: now)\n"
"  --until S        when the source falls silent\n"
"  --seed N         of all that is drawn\n"
"  --name NAME      sources of other names draw other numbers\n"
"  --packet BYTES   length of a packet with its IP header (default 1500)\n"
"  --tos N          of the IP header\n"
"  --burst NS       mean length of a burst\n"
"  --gap NS         mean length of the silence between two\n"
"  --rate BITS      rate of the link, bit/s, where a packet counts 14 bytes more\n"
"  --every NS       one packet every so many nanoseconds\n"
"  --sample L=S     print the counters as they are at S, under the label L\n"
"  --print-schedule print when how many packets are due, and send nothing\n"
"\n"
"One JSON object per line: {\"event\": \"sample\"} for each sample, then\n"
"{\"event\": \"end\"}.  packets counts what was due before the instant.\n");
}

/* -------------------------------------------------------------- words */

static void parse_option(int opt, char *arg)
{
	switch (opt) {
	case 't': cfg.to = parse_address(arg, "--to"); break;
	case 'p': cfg.port = parse_count(arg, "--port", 65535); break;
	case 'e': cfg.epoch = parse_seconds(arg, "--epoch"); break;
	case 'u': cfg.until = parse_seconds(arg, "--until"); break;
	case 's': cfg.seed = (uint64_t)parse_number(arg, "--seed", INT64_MAX); break;
	case 'n': cfg.name = arg; break;
	case 'l': cfg.packet = parse_count(arg, "--packet", LONGEST_PACKET); break;
	case 'T': cfg.tos = parse_count(arg, "--tos", 255); break;
	case 'b': cfg.burst = parse_number(arg, "--burst", LONGEST); break;
	case 'g': cfg.gap = parse_number(arg, "--gap", LONGEST); break;
	case 'r': cfg.rate = parse_number(arg, "--rate", 1000 * NSEC); break;
	case 'v': cfg.every = parse_number(arg, "--every", LONGEST); break;
	case 'S': cfg.n_samples = parse_samples(arg, cfg.samples); break;
	case 'P': cfg.print_schedule = true; break;
	case 'h': usage(stdout); exit(0);
	default: usage(stderr); exit(2);
	}
}

static int headers(void)
{
	return cfg.to.any.sa_family == AF_INET6 ? HEADERS_V6 : HEADERS_V4;
}

static void check_words(void)
{
	if (!cfg.until)
		die("--until is missing: without it the program would never end");
	if (cfg.packet <= headers())
		die("--packet: %d bytes leave nothing behind the headers", cfg.packet);
	if (!cfg.every == !cfg.burst)
		die("needs --every, or --burst with --gap and --rate");
	if (cfg.burst && (!cfg.gap || !cfg.rate))
		die("--burst needs --gap and --rate");
	if (!cfg.print_schedule && !cfg.to.any.sa_family)
		die("--to is missing");
}

static void parse_command_line(int argc, char **argv)
{
	static const struct option options[] = {
		{ "to", required_argument, NULL, 't' },
		{ "port", required_argument, NULL, 'p' },
		{ "epoch", required_argument, NULL, 'e' },
		{ "until", required_argument, NULL, 'u' },
		{ "seed", required_argument, NULL, 's' },
		{ "name", required_argument, NULL, 'n' },
		{ "packet", required_argument, NULL, 'l' },
		{ "tos", required_argument, NULL, 'T' },
		{ "burst", required_argument, NULL, 'b' },
		{ "gap", required_argument, NULL, 'g' },
		{ "rate", required_argument, NULL, 'r' },
		{ "every", required_argument, NULL, 'v' },
		{ "sample", required_argument, NULL, 'S' },
		{ "print-schedule", no_argument, NULL, 'P' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		parse_option(opt, optarg);
	if (optind < argc)
		die("'%s' is not an option", argv[optind]);
	check_words();
}

/* ----------------------------------------------------------- schedule */

static unsigned __int128 packet_bits(void)
{
	return (unsigned __int128)(cfg.packet + FRAME_HEADER) * 8;
}

/* Packets that begin within @ns from the first one, at the link's rate. */
static int64_t packets_within(int64_t ns)
{
	unsigned __int128 packet = packet_bits() * NSEC;

	if (ns <= 0)
		return 0;
	return (int64_t)(((unsigned __int128)ns * (uint64_t)cfg.rate + packet - 1) / packet);
}

/*
 * floor(length / packet + U): as many packets as fit on average, without the
 * bias that rounding up or down would have where a burst is a packet or two.
 */
static int64_t packets_of(int64_t length)
{
	unsigned __int128 packet = packet_bits() * NSEC;
	unsigned __int128 extra = packet * (stream_next(&stream) >> 32) >> 32;

	return (int64_t)(((unsigned __int128)length * (uint64_t)cfg.rate + extra) / packet);
}

/* The burst after the one that ended at *@t, which moves to the end of this one. */
static struct burst next_burst(int64_t *t)
{
	struct burst b;
	int64_t length, left;

	if (cfg.every) {
		b = (struct burst){ .at = *t, .packets = 1 };
		*t += cfg.every;
		return b;
	}
	b.at = *t + (int64_t)stream_exponential(&stream, (double)cfg.gap);
	length = (int64_t)stream_exponential(&stream, (double)cfg.burst);
	b.packets = packets_of(length);
	left = packets_within(cfg.until - b.at);
	if (b.packets > left)
		b.packets = left;
	*t = b.at + length;
	return b;
}

/* Where the first burst's gap begins: periods of several sources must not coincide. */
static int64_t beginning(void)
{
	if (!cfg.every)
		return 0;
	return (int64_t)((unsigned __int128)(uint64_t)cfg.every * stream_next(&stream) >> 64);
}

static void print_schedule(void)
{
	int64_t t = beginning();
	struct burst b;

	while ((b = next_burst(&t)).at < cfg.until)
		printf("{\"at_ns\":%lld,\"packets\":%lld}\n", (long long)b.at,
		       (long long)b.packets);
}

/* ------------------------------------------------------------ sending */

static void connect_socket(void)
{
	fd = open_socket(cfg.to.any.sa_family, SOCK_DGRAM);
	set_buffer(fd, true, SEND_BUFFER);
	set_tos(fd, cfg.to.any.sa_family, cfg.tos);
	set_port(&cfg.to, cfg.port);
	if (connect(fd, &cfg.to.any, address_length(&cfg.to)))
		die("connect: %s", strerror(errno));
}

/* All packets are the same, and so is every message that stands for one. */
static struct mmsghdr *messages(void)
{
	static char payload[LONGEST_PACKET];
	static struct iovec part;
	static struct mmsghdr all[AT_ONCE];

	part = (struct iovec){ .iov_base = payload,
			       .iov_len = (size_t)(cfg.packet - headers()) };
	for (int i = 0; i < AT_ONCE; i++)
		all[i].msg_hdr = (struct msghdr){ .msg_iov = &part, .msg_iovlen = 1 };
	return all;
}

static void send_burst(struct mmsghdr *all, const struct burst *b)
{
	int64_t late, left = b->packets;

	sleep_until(cfg.epoch + b->at);
	late = now() - cfg.epoch - b->at;
	if (late > counts.late)
		counts.late = late;
	while (left > 0) {
		int sent = sendmmsg(fd, all, left < AT_ONCE ? (unsigned int)left : AT_ONCE, 0);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			if (!counts.errors++)
				counts.error = errno;
			sent = 1;	/* it is lost; the burst keeps its length */
		}
		left -= sent;
	}
}

static void print_counts(const char *event, const char *label, const struct counts *c)
{
	printf("{\"event\":\"%s\"", event);
	if (label)
		printf(",\"sample\":\"%s\"", label);
	printf(",\"epoch_ns\":%lld,\"packets\":%lld,\"bytes\":%lld,\"bursts\":%lld,"
	       "\"errors\":%lld,\"late_ns\":%lld", (long long)cfg.epoch,
	       (long long)c->packets, (long long)c->packets * cfg.packet,
	       (long long)c->bursts, (long long)c->errors, (long long)c->late);
	if (c->error)
		printf(",\"error\":\"%s\"", strerror(c->error));
	printf("}\n");
}

/* Prints the samples up to @end; a burst @b may still be going on then, or be NULL. */
static void pass_samples(int *next, int64_t end, const struct burst *b)
{
	for (; *next < cfg.n_samples && cfg.samples[*next].at <= end; (*next)++) {
		const struct sample *s = &cfg.samples[*next];
		struct counts c = counts;

		if (b && b->at < s->at) {
			int64_t begun = cfg.every ? 1 : packets_within(s->at - b->at);

			c.packets += begun < b->packets ? begun : b->packets;
			c.bursts += b->packets > 0;
		}
		print_counts("sample", s->label, &c);
	}
}

static void follow_schedule(void)
{
	struct mmsghdr *all = messages();
	int64_t t = beginning();
	int sampled = 0;
	struct burst b;

	while ((b = next_burst(&t)).at < cfg.until) {
		pass_samples(&sampled, b.at, NULL);
		if (b.packets)
			send_burst(all, &b);
		pass_samples(&sampled, t, &b);
		counts.packets += b.packets;
		counts.bursts += b.packets > 0;
	}
	sleep_until(cfg.epoch + cfg.until);
	pass_samples(&sampled, INT64_MAX, NULL);
	print_counts("end", NULL, &counts);
}

int main(int argc, char **argv)
{
	cfg.epoch = now();
	parse_command_line(argc, argv);
	setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER);
	stream_begin(&stream, cfg.seed, stream_number(cfg.name));
	if (cfg.print_schedule) {
		print_schedule();
		return 0;
	}
	sleep_exactly();
	connect_socket();
	follow_schedule();
	return 0;
}
