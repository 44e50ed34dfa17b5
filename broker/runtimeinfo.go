package broker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

// brokerVersion is what tools show as the broker's version: RocketMQ's whose
// protocol is spoken, as remoting.Version.
const brokerVersion = "V5_5_0"

// runtimeInfo serves GET_BROKER_RUNTIME_INFO with the keys of RocketMQ
// `AdminBrokerProcessor.prepareRuntimeInfo`, as mqadmin, dashboard and exporter
// parse them. There are no thread pools, so nothing waits in their queues; a
// message is dispatched with the write that stores it, so nothing is behind.
func runtimeInfo(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	now := time.Now()
	table := make(map[string]string, 80)
	put := func(key string, value any) { table[key] = fmt.Sprint(value) }

	put("brokerActive", true)
	put("brokerVersion", remoting.Version)
	put("brokerVersionDesc", brokerVersion)
	put("bootTimestamp", b.started.UnixMilli())
	put("startAcceptSendRequestTimeStamp", b.started.UnixMilli())
	put("runtime", formatRuntime(now.Sub(b.started)))

	b.putCounters(put, now)
	b.putLog(put)
	for _, pool := range []string{"send", "pull", "litePull", "query", "ack"} {
		put(pool+"ThreadPoolQueueSize", 0)
		put(pool+"ThreadPoolQueueCapacity", 0)
		put(pool+"ThreadPoolQueueHeadWaitTimeMills", 0)
	}
	put("EndTransactionQueueSize", 0)
	put("EndTransactionThreadPoolQueueCapacity", 0)

	states := b.levelTable(b.store.Now().UnixMicro())
	var pending int64
	for _, s := range states {
		if s.Level > 0 {
			put(fmt.Sprintf("scheduleMessageOffset_%d", s.Level), fmt.Sprintf("%d,%d", s.Offset, s.MaxOffset))
		}
		pending += s.Pending
	}
	// Of what is pending, the columns for timers show the number.
	put("timerCongestNum", pending)
	for _, key := range []string{"timerReadBehind", "timerOffsetBehind"} {
		put(key, 0)
	}
	put("timerEnqueueTps", "0.0")
	put("timerDequeueTps", "0.0")

	for _, n := range b.names.servers {
		put("namesrv_"+n.addr, *n.state.Load())
	}
	unsupported := b.stats.unsupported.each(func(code int, n int64) {
		put("requestsNotSupported_"+strconv.Itoa(code), n)
	})
	put("requestsNotSupported", unsupported)
	return c.replyJSON(req, map[string]any{"table": table})
}

// putCounters writes what the statistics say.
func (b *Broker) putCounters(put func(string, any), now time.Time) {
	s := &b.stats
	puts, gets := s.put.messages.Load(), s.get.messages.Load()
	s.days.mu.Lock()
	put("msgPutTotalYesterdayMorning", s.days.putYesterday)
	put("msgPutTotalTodayMorning", s.days.putToday)
	put("msgGetTotalYesterdayMorning", s.days.getYesterday)
	put("msgGetTotalTodayMorning", s.days.getToday)
	s.days.mu.Unlock()
	put("msgPutTotalTodayNow", puts)
	put("msgGetTotalTodayNow", gets)

	put("putMessageTimesTotal", puts)
	put("putMessageFailedTimes", s.putFailed.Load())
	put("putMessageSizeTotal", s.put.bytes.Load())
	put("putMessageAverageSize", float64(s.put.bytes.Load())/float64(max(puts, 1)))
	put("putMessageDistributeTime", s.putTimes.distribution())
	put("putMessageEntireTimeMax", time.Duration(s.putTimes.max.Load()).Milliseconds())
	put("putLatency99", fmt.Sprintf("%.2f", s.putTimes.quantile(0.99)))
	put("putLatency999", fmt.Sprintf("%.2f", s.putTimes.quantile(0.999)))
	put("getMessageEntireTimeMax", 0)
	put("putTps", perSecond(now, messagesOf, &s.put))
	put("getFoundTps", perSecond(now, callsOf, &s.found))
	put("getMissTps", perSecond(now, callsOf, &s.missed))
	put("getTotalTps", perSecond(now, callsOf, &s.found, &s.missed))
	put("getTransferredTps", perSecond(now, messagesOf, &s.get))
	put("getTransferedTps", perSecond(now, messagesOf, &s.get)) // as before 5.0
}

// putLog writes the state of log and disk.
func (b *Broker) putLog(put func(string, any)) {
	log := b.store.LogInfo()
	put("commitLogMinOffset", log.First)
	put("commitLogMaxOffset", log.End)
	put("remainHowManyDataToFlush", byteCount(log.Unsynced))
	put("remainTransientStoreBufferNumbs", 0)
	put("dispatchBehindBytes", 0)
	put("dispatchMaxBuffer", 0)
	put("pageCacheLockTimeMills", 0)
	put("earliestMessageTimeStamp", b.store.EarliestMessageTime())
	if free, total, err := b.store.Space(); err == nil && total > 0 {
		used := float64(total-free) / float64(total)
		put("commitLogDiskRatio", used)
		put("commitLogDiskRatio_"+b.opts.Dir, used)
		put("consumeQueueDiskRatio", used)
		put("commitLogDirCapacity", fmt.Sprintf("Total : %s, Free : %s.", byteCount(total), byteCount(free)))
	}
}

// byteCount writes bytes as RocketMQ `MixAll.humanReadableByteCount` does.
func byteCount(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1024, 0
	for v >= 1024 && unit < len("KMGTPE")-1 {
		v /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTPE"[unit])
}

// formatRuntime writes how long the broker runs, as RocketMQ
// `StoreStatsService`.
func formatRuntime(d time.Duration) string {
	s := int64(d / time.Second)
	return fmt.Sprintf("[ %d days, %d hours, %d minutes, %d seconds ]", s/86400, s/3600%24, s/60%60, s%60)
}

// brokerStatsData serves VIEW_BROKER_STATS_DATA: the sums and rates of one of
// RocketMQ's statistics over a minute, an hour and a day.
func brokerStatsData(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	name, err := req.Fields.Require("statsName")
	if err != nil {
		return err
	}
	key, err := req.Fields.Require("statsKey")
	if err != nil {
		return err
	}
	f, size := b.flowNamed(name, key)
	if f == nil {
		return refuse(remoting.SystemError, "The stats <%s> <%s> not exist", name, key)
	}
	now := time.Now()
	item := func(window time.Duration) map[string]any {
		w := f.within(window, now)
		sum := w.messages
		if size {
			sum = w.bytes
		}
		return map[string]any{"sum": sum, "tps": float64(sum) / w.seconds, "avgpt": float64(sum) / float64(max(w.calls, 1))}
	}
	return c.replyJSON(req, map[string]any{
		"statsMinute": item(time.Minute), "statsHour": item(time.Hour), "statsDay": item(24 * time.Hour),
	})
}

// flowNamed returns the numbers that RocketMQ's name and key stand for, nil
// when there are none; size says that bytes are meant. Keys are a topic,
// TOPIC@GROUP, or the cluster.
func (b *Broker) flowNamed(name, key string) (f *flow, size bool) {
	topic, group, _ := strings.Cut(key, "@")
	kind, ok := map[string]flowKind{
		"TOPIC_PUT_NUMS": topicPut, "TOPIC_PUT_SIZE": topicPut, "GROUP_GET_NUMS": groupGet, "GROUP_GET_SIZE": groupGet, "SNDBCK_PUT_NUMS": groupBack,
	}[name]
	switch {
	case ok:
		return b.stats.lookUp(kind, groupTopic{group, topic}), strings.HasSuffix(name, "_SIZE")
	case key != b.opts.ClusterName:
	case name == "BROKER_PUT_NUMS":
		return &b.stats.put, false
	case name == "BROKER_GET_NUMS":
		return &b.stats.get, false
	}
	return nil, false
}
