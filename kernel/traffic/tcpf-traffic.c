// SPDX-License-Identifier: GPL-2.0
/*
 * tcpf-traffic - bulk TCP flows that cost the guest almost no system calls.
 *
 * In a User-Mode Linux guest a system call of a process costs a ptrace round
 * trip on the host while a forwarded packet costs none.  So every sender sits
 * in one sendfile() and every receiver in one recv(MSG_TRUNC | MSG_WAITALL)
 * for the whole run: the kernel moves the data, nobody copies it, and the
 * program wakes only to read TCP_INFO at the instants it was asked for.
 *
 *   tcpf-traffic send --connect ADDR --start S,S,... --sample LABEL=S,...
 *   tcpf-traffic recv --listen ADDR --flows N --sample LABEL=S,...
 *
 * Instants are seconds after --epoch, see instant.h.  The last sample ends the
 * program: connections are reset, so that no backlog outlives the run.
 * Output is one JSON object per line on stdout, and with --info a file of
 * struct info_record; see usage().
 */
#define _GNU_SOURCE
#include "instant.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_FLOWS	4096
/*
 * What Linux 6.7 appended to struct tcp_info (after snd_wnd, rcv_wnd, rehash);
 * older headers end before it.  An older kernel gives fewer bytes, and the
 * fields are not printed then: none counted is not the same as no timeouts.
 */
struct rto_counts {
	uint16_t total_rto;		/* timer expiries, SYN and back-offs too */
	uint16_t total_rto_recoveries;	/* completed loss recoveries */
	uint32_t total_rto_time;	/* time spent in them, ms */
};

union tcp_info_buffer {
	struct tcp_info info;
	struct {
		char before[offsetof(struct tcp_info, tcpi_snd_wnd) + 3 * 4];
		struct rto_counts counts;
	} rto;
};

/*
 * TCP_INFO of a flow at a multiple of --interval, little-endian in the file.
 * Fields that an older kernel does not have are 0. The kernel of virtual time
 * has the same as struct tcp_info_log_sample.
 */
struct info_record {
	int64_t time_ns;		/* after the epoch */
	uint32_t flow;
	uint32_t cwnd;			/* segments */
	uint32_t ssthresh;
	uint32_t rtt_us;		/* smoothed */
	uint32_t rttvar_us;
	uint32_t rto_us;
	uint64_t pacing_rate;		/* bytes/s; all ones: not paced */
	uint64_t delivery_rate;		/* bytes/s */
	uint64_t bytes_acked;
	uint64_t bytes_retrans;
	uint32_t min_rtt_us;
	uint32_t unacked;		/* segments */
	uint32_t delivered;
	uint32_t delivered_ce;
	uint32_t total_retrans;
	uint32_t ca_state;
};

static_assert(sizeof(struct info_record) == 88, "struct info_record has no padding");

/* What the kernel of virtual time calls struct tcp_info_log_request. */
struct log_request {
	int64_t epoch;			/* ns, CLOCK_REALTIME */
	int64_t interval;		/* ns */
	int32_t socket;
	uint32_t flow;
};

#define CHUNK		0x7ffff000	/* the most one sendfile or recv takes */
#define THREAD_STACK	(32 * 1024)

struct flow {
	int index;
	int fd;			/* -1 until the socket exists */
	int64_t start;		/* ns after the epoch (senders) */
	bool connected;
	int error;		/* errno that ended the flow early */
	int64_t begun;		/* ns after the epoch, before connect(); with --volume */
	int64_t missed;		/* periods of --every without a chunk */
	atomic_bool finished;	/* all of --volume sent, and the peer's FIN has come */
	atomic_bool stopped;	/* by --stop: TCP_INFO is in last_info */
	pthread_t thread;
};

/* TCP_INFO as it was read, of the length that the kernel gave. */
struct flow_info {
	union tcp_info_buffer buffer;
	socklen_t length;	/* 0: none */
};

struct config {
	bool sending;
	union address addr;
	int port;
	int source_port;	/* of flow 0; flow i uses source_port + i */
	int first;		/* number of the first flow of this process */
	int flows;
	int buffer;		/* SO_SNDBUF or SO_RCVBUF, bytes; 0: kernel's */
	int64_t epoch;		/* ns, CLOCK_REALTIME */
	char congestion[16];
	struct sample samples[MAX_SAMPLES];
	int n_samples;
	/* Of senders; 0 or NULL: not given. */
	int64_t stop;		/* ns after the epoch */
	int64_t volume;		/* bytes */
	uint64_t pace;		/* bytes/s */
	int64_t chunk;		/* bytes */
	int64_t every;		/* ns */
	bool nodelay;
	int64_t interval;	/* ns */
	const char *info;
	const char *sender_only;	/* the last such option */
};

static struct config cfg = { .port = 5001, .source_port = 20000 };
static struct flow flows[MAX_FLOWS];
static int payload_fd = -1;
static char *stacks;
static struct flow_info *last_info;	/* of each flow, read when --stop reset it */
static struct record_file info_file;
static int info_log = -1;		/* the kernel takes the samples */

const char program_name[] = "tcpf-traffic";

static void usage(FILE *to)
{
	fprintf(to,
"usage: tcpf-traffic send --connect ADDR --start S[,S...] --sample LABEL=S[,...]\n"
"       tcpf-traffic recv --listen ADDR --flows N --sample LABEL=S[,...]\n"
"\n"
"  --epoch S        CLOCK_REALTIME second that all other times count from\n"
"                   (default: now)\n"
"  --port P         port of the receiver (default 5001)\n"
"  --source-port P  flow i sends from port P + i (default 20000)\n"
"  --start S[,S...] one sender per start time\n"
"  --first N        number of this process's first flow (default 0)\n"
"  --flows N        connections a receiver waits for\n"
"  --sample L=S     read TCP_INFO of every flow at S and label it L;\n"
"                   the last sample ends the program\n"
"  --buffer BYTES   socket buffer (SO_SNDBUF / SO_RCVBUF)\n"
"  --congestion CC  TCP congestion control of the senders\n"
"\n"
"send only:\n"
"  --stop S         reset the connections at S; later samples repeat the TCP_INFO\n"
"                   read just before, with \"stopped\": true\n"
"  --volume BYTES   each flow sends so many bytes, closes, and waits for the\n"
"                   receiver's FIN\n"
"  --pace BITS      at most so many bit/s per flow (SO_MAX_PACING_RATE)\n"
"  --chunk BYTES    with --every: so many bytes at a time, not as fast as possible\n"
"  --every S        one chunk per period from the flow's start on; a flow that was\n"
"                   blocked sends the latest chunk due and skips those before it\n"
"                   (\"missed_chunks\" of the samples)\n"
"  --nodelay        TCP_NODELAY\n"
"  --interval S     with --info: read TCP_INFO of every connected flow at all\n"
"                   multiples of S\n"
"  --info FILE      records of 88 bytes, little-endian: i64 time_ns; u32 flow, cwnd,\n"
"                   ssthresh, rtt_us, rttvar_us, rto_us; u64 pacing_rate,\n"
"                   delivery_rate (bytes/s), bytes_acked, bytes_retrans;\n"
"                   u32 min_rtt_us, unacked, delivered, delivered_ce,\n"
"                   total_retrans, ca_state\n"
"\n"
"ADDR is an IPv4 or IPv6 address.  One JSON object per line:\n"
"{\"event\": \"listening\"} when a receiver is ready, then for each sample and flow\n"
"the fields of struct tcp_info; of a flow that has sent its volume\n"
"{\"event\": \"finished\", \"flow\": N, \"start_ns\": ..., \"time_ns\": ..., \"bytes\": ...},\n"
"nanoseconds after the epoch, when the FIN has come.\n");
}

/* ------------------------------------------------------------- options */

static void parse_starts(char *text)
{
	char *item;

	while ((item = strsep(&text, ","))) {
		if (cfg.flows == MAX_FLOWS)
			die("--start: more than %d flows", MAX_FLOWS);
		flows[cfg.flows++].start = parse_seconds(item, "--start");
	}
}

/* At least 1 ns. */
static int64_t parse_period(const char *text, const char *what)
{
	int64_t ns = parse_seconds(text, what);

	if (!ns)
		die("%s: '%s' is no time at all", what, text);
	return ns;
}

static int64_t parse_bytes(const char *text, const char *what, int64_t max)
{
	int64_t bytes = parse_number(text, what, max);

	if (!bytes)
		die("%s: '%s' is not a number from 1 to %lld", what, text, (long long)max);
	return bytes;
}

static uint64_t parse_rate(const char *text)
{
	int64_t bits = parse_number(text, "--pace", INT64_MAX);

	if (bits < 8)
		die("--pace: '%s' is less than 8 bit/s", text);
	return (uint64_t)bits / 8;
}

static bool parse_sender_option(int opt, char *arg)
{
	switch (opt) {
	case 't': cfg.stop = parse_period(arg, cfg.sender_only = "--stop"); break;
	case 'v':
		cfg.volume = parse_bytes(arg, cfg.sender_only = "--volume", (int64_t)1 << 50);
		break;
	case 'r': cfg.pace = parse_rate(arg); cfg.sender_only = "--pace"; break;
	case 'k': cfg.chunk = parse_bytes(arg, cfg.sender_only = "--chunk", CHUNK); break;
	case 'E': cfg.every = parse_period(arg, cfg.sender_only = "--every"); break;
	case 'N': cfg.nodelay = true; cfg.sender_only = "--nodelay"; break;
	case 'i': cfg.interval = parse_period(arg, cfg.sender_only = "--interval"); break;
	case 'I': cfg.info = arg; cfg.sender_only = "--info"; break;
	default: return false;
	}
	return true;
}

static void parse_option(int opt, char *arg)
{
	if (parse_sender_option(opt, arg))
		return;
	switch (opt) {
	case 'c': cfg.addr = parse_address(arg, "--connect"); break;
	case 'l': cfg.addr = parse_address(arg, "--listen"); break;
	case 'e': cfg.epoch = parse_seconds(arg, "--epoch"); break;
	case 'p': cfg.port = parse_count(arg, "--port", 65535); break;
	case 'P': cfg.source_port = parse_count(arg, "--source-port", 65535); break;
	case 'f': cfg.first = parse_count(arg, "--first", 65535); break;
	case 's': parse_starts(arg); break;
	case 'n':
		if (cfg.sending)
			die("--flows is for receivers; a sender has one --start per flow");
		cfg.flows = parse_count(arg, "--flows", MAX_FLOWS);
		break;
	case 'S': cfg.n_samples = parse_samples(arg, cfg.samples); break;
	case 'b': cfg.buffer = parse_count(arg, "--buffer", 1 << 30); break;
	case 'C': snprintf(cfg.congestion, sizeof(cfg.congestion), "%s", arg); break;
	default: usage(stderr); exit(2);
	}
}

static void check_options(void)
{
	if (!cfg.addr.any.sa_family)
		die("%s is missing", cfg.sending ? "--connect" : "--listen");
	if (!cfg.flows)
		die("%s is missing", cfg.sending ? "--start" : "--flows");
	if (!cfg.n_samples)
		die("--sample is missing: without one the program would never end");
	if (cfg.source_port + cfg.first + cfg.flows > 65536)
		die("--source-port %d leaves no ports for %d flows from number %d",
		    cfg.source_port, cfg.flows, cfg.first);
	if (!cfg.sending && cfg.sender_only)
		die("%s is for senders", cfg.sender_only);
	if (!cfg.chunk != !cfg.every)
		die("--chunk and --every need each other");
	if (!cfg.interval != !cfg.info)
		die("--interval and --info need each other");
	for (int i = 0; cfg.stop && i < cfg.flows; i++)
		if (flows[i].start >= cfg.stop)
			die("--stop: flow %d would stop before it starts", cfg.first + i);
}

static void parse_command_line(int argc, char **argv)
{
	static const struct option options[] = {
		{ "connect", required_argument, NULL, 'c' },
		{ "listen", required_argument, NULL, 'l' },
		{ "epoch", required_argument, NULL, 'e' },
		{ "port", required_argument, NULL, 'p' },
		{ "source-port", required_argument, NULL, 'P' },
		{ "first", required_argument, NULL, 'f' },
		{ "start", required_argument, NULL, 's' },
		{ "flows", required_argument, NULL, 'n' },
		{ "sample", required_argument, NULL, 'S' },
		{ "buffer", required_argument, NULL, 'b' },
		{ "congestion", required_argument, NULL, 'C' },
		{ "stop", required_argument, NULL, 't' },
		{ "volume", required_argument, NULL, 'v' },
		{ "pace", required_argument, NULL, 'r' },
		{ "chunk", required_argument, NULL, 'k' },
		{ "every", required_argument, NULL, 'E' },
		{ "nodelay", no_argument, NULL, 'N' },
		{ "interval", required_argument, NULL, 'i' },
		{ "info", required_argument, NULL, 'I' },
		{ NULL, 0, NULL, 0 },
	};
	int opt;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))) {
		usage(stdout);
		exit(0);
	}
	if (argc < 2 || (strcmp(argv[1], "send") && strcmp(argv[1], "recv"))) {
		usage(stderr);
		exit(2);
	}
	cfg.sending = !strcmp(argv[1], "send");
	while ((opt = getopt_long(argc - 1, argv + 1, "", options, NULL)) != -1)
		parse_option(opt, optarg);
	if (optind < argc - 1)
		die("'%s' is not an option", argv[optind + 1]);
	check_options();
	cfg.source_port += cfg.first;
	set_port(&cfg.addr, cfg.port);
}

/* ------------------------------------------------------------- sockets */

static int tcp_socket(void)
{
	int fd = open_socket(cfg.addr.any.sa_family, SOCK_STREAM);

	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	if (cfg.buffer)
		set_buffer(fd, cfg.sending, cfg.buffer);
	if (*cfg.congestion &&
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cfg.congestion,
		       (socklen_t)strlen(cfg.congestion)))
		die("congestion control '%s': %s", cfg.congestion, strerror(errno));
	if (cfg.pace && setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &cfg.pace,
				   sizeof(cfg.pace)))
		die("setsockopt SO_MAX_PACING_RATE: %s", strerror(errno));
	if (cfg.nodelay)
		set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	return fd;
}

/* What --stop does to a flow is no error. */
static void fail(struct flow *f, int error)
{
	if (!f->stopped)
		f->error = error;
}

/* Returns 0 or an errno. */
static int send_bytes(struct flow *f, int64_t bytes)
{
	while (bytes > 0) {
		off_t offset = 0;
		ssize_t n = sendfile(f->fd, payload_fd, &offset,
				     bytes < CHUNK ? (size_t)bytes : CHUNK);

		if (n < 0)
			return errno;
		bytes -= n;
	}
	return 0;
}

/* One chunk each period, at most one late; returns 0 or an errno. */
static int send_chunks(struct flow *f, int64_t bytes)
{
	int64_t period = 0;

	while (bytes > 0) {
		int64_t begun;
		int error;

		sleep_until(cfg.epoch + f->start + period * cfg.every);
		error = send_bytes(f, bytes < cfg.chunk ? bytes : cfg.chunk);
		if (error)
			return error;
		bytes -= cfg.chunk;
		begun = (now() - cfg.epoch - f->start) / cfg.every;
		period++;
		if (begun > period) {
			f->missed += begun - period;
			period = begun;
		}
	}
	return 0;
}

/* Closes the sending side and waits for the peer's FIN; returns 0 or an errno. */
static int finish(struct flow *f)
{
	char none;
	ssize_t n;

	if (shutdown(f->fd, SHUT_WR))
		return errno;
	n = recv(f->fd, &none, 1, 0);
	if (n)
		return n < 0 ? errno : EPROTO;
	if (f->stopped)
		return ECONNRESET;
	f->finished = true;
	printf("{\"event\":\"finished\",\"flow\":%d,\"start_ns\":%lld,\"time_ns\":%lld,"
	       "\"bytes\":%lld}\n", cfg.first + f->index, (long long)f->begun,
	       (long long)(now() - cfg.epoch), (long long)cfg.volume);
	return 0;
}

static void *send_flow(void *arg)
{
	struct flow *f = arg;
	int64_t bytes = cfg.volume ? cfg.volume : INT64_MAX;
	int error;

	if (cfg.every)
		sleep_exactly();
	sleep_until(cfg.epoch + f->start);
	if (cfg.volume)
		f->begun = now() - cfg.epoch;
	if (connect(f->fd, &cfg.addr.any, address_length(&cfg.addr))) {
		fail(f, errno);
		return NULL;
	}
	f->connected = true;
	error = cfg.every ? send_chunks(f, bytes) : send_bytes(f, bytes);
	if (!error)
		error = finish(f);
	if (error)
		fail(f, error);
	return NULL;
}

static void *receive_flow(void *arg)
{
	struct flow *f = arg;
	ssize_t n;

	do {
		n = recv(f->fd, NULL, CHUNK, MSG_TRUNC | MSG_WAITALL);
	} while (n > 0);
	f->error = n < 0 ? errno : 0;
	/* The sender has sent its volume and waits for a FIN; the counters stay readable. */
	if (!n)
		shutdown(f->fd, SHUT_WR);
	return NULL;
}

static void spawn(struct flow *f, void *(*body)(void *))
{
	start_thread(&f->thread, stacks + (size_t)f->index * THREAD_STACK, THREAD_STACK,
		     body, f, f->index);
}

static void start_senders(void)
{
	payload_fd = zero_file(CHUNK);
	for (int i = 0; i < cfg.flows; i++) {
		union address from = any_address(cfg.addr.any.sa_family);

		set_port(&from, cfg.source_port + i);
		flows[i].fd = tcp_socket();
		if (bind(flows[i].fd, &from.any, address_length(&from)))
			die("bind port %d: %s", cfg.source_port + i, strerror(errno));
		spawn(&flows[i], send_flow);
	}
}

static void *accept_flows(void *arg)
{
	int listener = *(int *)arg;

	for (int accepted = 0; accepted < cfg.flows; accepted++) {
		union address peer = cfg.addr;
		socklen_t len = sizeof(peer);
		int fd = accept(listener, &peer.any, &len);
		int i = port_of(&peer) - cfg.source_port;

		if (fd < 0)
			die("accept: %s", strerror(errno));
		if (i < 0 || i >= cfg.flows || flows[i].connected)
			die("unexpected connection from port %d", port_of(&peer));
		flows[i].fd = fd;
		flows[i].connected = true;
		spawn(&flows[i], receive_flow);
	}
	return NULL;
}

static void start_receiver(void)
{
	static pthread_t acceptor;
	static int listener;

	listener = tcp_socket();
	if (bind(listener, &cfg.addr.any, address_length(&cfg.addr)) ||
	    listen(listener, cfg.flows))
		die("listen on port %d: %s", cfg.port, strerror(errno));
	if (pthread_create(&acceptor, NULL, accept_flows, &listener))
		die("cannot start the accepting thread");
	printf("{\"event\":\"listening\",\"port\":%d,\"flows\":%d}\n", cfg.port,
	       cfg.flows);
	fflush(stdout);
}

/* ------------------------------------------------------------- samples */

/* Where the kernel gave none, @rto is NULL. */
static void print_info(const struct tcp_info *t, const struct rto_counts *rto)
{
	printf(",\"tcp_state\":%u,\"options\":%u,\"snd_mss\":%u,\"rcv_mss\":%u",
	       t->tcpi_state, t->tcpi_options, t->tcpi_snd_mss, t->tcpi_rcv_mss);
	printf(",\"rto_us\":%u,\"rtt_us\":%u,\"rttvar_us\":%u,\"snd_cwnd\":%u,"
	       "\"snd_ssthresh\":%u", t->tcpi_rto, t->tcpi_rtt, t->tcpi_rttvar,
	       t->tcpi_snd_cwnd, t->tcpi_snd_ssthresh);
	printf(",\"bytes_sent\":%llu,\"bytes_acked\":%llu,\"bytes_received\":%llu,"
	       "\"bytes_retrans\":%llu", t->tcpi_bytes_sent, t->tcpi_bytes_acked,
	       t->tcpi_bytes_received, t->tcpi_bytes_retrans);
	printf(",\"segs_out\":%u,\"segs_in\":%u,\"data_segs_out\":%u,"
	       "\"data_segs_in\":%u", t->tcpi_segs_out, t->tcpi_segs_in,
	       t->tcpi_data_segs_out, t->tcpi_data_segs_in);
	printf(",\"total_retrans\":%u", t->tcpi_total_retrans);
	if (rto)
		printf(",\"total_rto\":%u,\"total_rto_recoveries\":%u,"
		       "\"total_rto_time_ms\":%u", rto->total_rto,
		       rto->total_rto_recoveries, rto->total_rto_time);
	printf(",\"reordering\":%u,\"dsack_dups\":%u,\"reord_seen\":%u,"
	       "\"rcv_ooopack\":%u", t->tcpi_reordering, t->tcpi_dsack_dups,
	       t->tcpi_reord_seen, t->tcpi_rcv_ooopack);
}

static void read_info(const struct flow *f, struct flow_info *info)
{
	if (f->stopped) {
		*info = last_info[f->index];
		return;
	}
	memset(info, 0, sizeof(*info));
	info->length = sizeof(info->buffer);
	if (f->fd < 0 || getsockopt(f->fd, IPPROTO_TCP, TCP_INFO, &info->buffer, &info->length))
		info->length = 0;
}

static void take_sample(const struct sample *s)
{
	flockfile(stdout);	/* against a flow that finishes */
	for (int i = 0; i < cfg.flows; i++) {
		struct flow *f = &flows[i];
		struct flow_info info;
		int64_t at;	/* each flow's own: in real time reading a hundred takes a while */

		at = now() - cfg.epoch;
		read_info(f, &info);
		printf("{\"event\":\"sample\",\"sample\":\"%s\",\"epoch_ns\":%lld,"
		       "\"time_ns\":%lld,\"flow\":%d,\"source_port\":%d,"
		       "\"connected\":%s", s->label, (long long)cfg.epoch,
		       (long long)at, cfg.first + i, cfg.source_port + i,
		       f->connected ? "true" : "false");
		if (info.length)
			print_info(&info.buffer.info, info.length < sizeof(info.buffer.rto) ?
				   NULL : &info.buffer.rto.counts);
		if (cfg.every)
			printf(",\"missed_chunks\":%lld", (long long)f->missed);
		if (f->stopped)
			printf(",\"stopped\":true");
		if (f->error)
			printf(",\"error\":\"%s\"", strerror(f->error));
		printf("}\n");
	}
	fflush(stdout);
	funlockfile(stdout);
}

static bool underway(const struct flow *f)
{
	return f->connected && !f->finished && !f->stopped && !f->error;
}

/* Writes the record of each flow; returns when, ns after the epoch. */
static int64_t record_info(void)
{
	int64_t at = now() - cfg.epoch;

	for (int i = 0; i < cfg.flows; i++) {
		const struct tcp_info *t;
		struct flow_info info;
		struct info_record r;

		if (!underway(&flows[i]))
			continue;
		read_info(&flows[i], &info);
		t = &info.buffer.info;
		r = (struct info_record){
			.time_ns = at, .flow = (uint32_t)(cfg.first + i),
			.cwnd = t->tcpi_snd_cwnd, .ssthresh = t->tcpi_snd_ssthresh,
			.rtt_us = t->tcpi_rtt, .rttvar_us = t->tcpi_rttvar,
			.rto_us = t->tcpi_rto, .pacing_rate = t->tcpi_pacing_rate,
			.delivery_rate = t->tcpi_delivery_rate,
			.bytes_acked = t->tcpi_bytes_acked,
			.bytes_retrans = t->tcpi_bytes_retrans,
			.min_rtt_us = t->tcpi_min_rtt, .unacked = t->tcpi_unacked,
			.delivered = t->tcpi_delivered,
			.delivered_ce = t->tcpi_delivered_ce,
			.total_retrans = t->tcpi_total_retrans,
			.ca_state = t->tcpi_ca_state,
		};
		add_record(&info_file, &r, sizeof(r));
	}
	return at;
}

/*
 * In virtual time a program that wakes has a run's packets sent at other
 * instants: its kernel takes the samples without one.
 */
static bool kernel_samples_info(void)
{
	info_log = open("/proc/tcp_info_log", O_RDWR | O_CLOEXEC);
	if (info_log < 0)
		return false;
	for (int i = 0; i < cfg.flows; i++) {
		struct log_request request = {
			.epoch = cfg.epoch, .interval = cfg.interval,
			.socket = flows[i].fd, .flow = (uint32_t)(cfg.first + i),
		};

		if (write(info_log, &request, sizeof(request)) < 0)
			die("samples of TCP_INFO: %s", strerror(errno));
	}
	return true;
}

static void copy_info_log(void)
{
	char page[4096];
	ssize_t n;

	while ((n = read(info_log, page, sizeof(page))) > 0)
		add_record(&info_file, page, (size_t)n);
	if (n < 0)
		die("samples of TCP_INFO: %s", strerror(errno));
}

/* ----------------------------------------------------------------- end */

/* The threads' system calls fail, and each connection is reset at once. */
static void stop_senders(void)
{
	const struct sockaddr nobody = { .sa_family = AF_UNSPEC };

	last_info = calloc((size_t)cfg.flows, sizeof(*last_info));
	if (!last_info)
		die("room for counters: %s", strerror(errno));
	for (int i = 0; i < cfg.flows; i++) {
		struct flow *f = &flows[i];

		if (f->finished || f->error)
			continue;
		read_info(f, &last_info[i]);
		f->stopped = true;
		if (connect(f->fd, &nobody, sizeof(nobody)))
			die("flow %d cannot be reset: %s", cfg.first + i, strerror(errno));
	}
}

static void reset_connections(void)
{
	for (int i = 0; i < cfg.flows; i++)
		if (flows[i].fd >= 0)
			reset_on_close(flows[i].fd);
}

/* Until the last sample; of what is due at one instant, the reset comes last. */
static void follow_timeline(void)
{
	int64_t stop = cfg.stop ? cfg.stop : INT64_MAX;
	int64_t tick = INT64_MAX;

	if (cfg.interval && !kernel_samples_info()) {
		int64_t since = now() - cfg.epoch;

		tick = since > 0 ? (since / cfg.interval + 1) * cfg.interval : 0;
	}
	if (cfg.stop || tick != INT64_MAX)
		sleep_exactly();
	for (int i = 0; i < cfg.n_samples; ) {
		const struct sample *next = &cfg.samples[i];

		if (tick <= next->at && tick <= stop) {
			sleep_until(cfg.epoch + tick);
			tick = (record_info() / cfg.interval + 1) * cfg.interval;
		} else if (next->at <= stop) {
			sleep_until(cfg.epoch + next->at);
			take_sample(next);
			i++;
		} else {
			sleep_until(cfg.epoch + stop);
			stop_senders();
			stop = INT64_MAX;
		}
	}
}

int main(int argc, char **argv)
{
	cfg.epoch = now();
	for (int i = 0; i < MAX_FLOWS; i++)
		flows[i] = (struct flow){ .index = i, .fd = -1 };
	parse_command_line(argc, argv);
	/* By clocks of their own the receivers may end first: an error, no signal. */
	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOFBF, OUTPUT_BUFFER);
	raise_file_limit(cfg.flows);
	/* All at once, mapped beforehand: threads by the hundred fault on nothing. */
	stacks = map_stacks(cfg.flows, THREAD_STACK, true);
	if (cfg.info)
		open_records(&info_file, cfg.info);
	if (cfg.sending)
		start_senders();
	else
		start_receiver();
	follow_timeline();
	if (info_log >= 0)
		copy_info_log();
	if (cfg.info)
		close_records(&info_file);
	/*
	 * Both ends: a FIN whose answer is lost would be sent again and again
	 * long after the queues have drained.
	 */
	reset_connections();
	/* The threads are in the kernel; leaving the process ends them. */
	_exit(0);
}
