package broker

import (
	"fmt"

	"github.com/tidemq/tidemq/internal/remoting"
)

// notSupported is the answer to a request that nothing here serves: code 3,
// with what it is and why not. It is counted (statistics.unsupported).
func (b *Broker) notSupported(code int) error {
	b.stats.unsupported.add(code)
	name := fmt.Sprintf("request type %d", code)
	if info, ok := remoting.Request(code); ok {
		name = fmt.Sprintf("%s (%d)", info.Name, code)
	}
	why := whyNot(code)
	if why == "" {
		return refuse(remoting.RequestCodeNotSupported, "%s is not supported", name)
	}
	return refuse(remoting.RequestCodeNotSupported, "%s is not supported: %s", name, why)
}

// whyNot says what a request that is not supported would need, and what to do
// instead where there is something; "" when nothing is known about it.
func whyNot(code int) string {
	switch code {
	case remoting.ReqRegisterBroker, remoting.ReqUnregisterBroker, remoting.ReqQueryDataVersion, remoting.ReqBrokerHeartbeat, remoting.ReqGetBrokerMemberGroup,
		remoting.ReqRegisterTopicInNamesrv:
		return "this name server serves its own broker alone; several brokers share an Apache name server"
	case remoting.ReqAddBroker, remoting.ReqRemoveBroker:
		return "this is one broker, no container of brokers; start another process instead"
	case remoting.ReqNotifyMinBrokerIDChange, remoting.ReqExchangeBrokerHAInfo, remoting.ReqResetMasterFlushOffset,
		remoting.ReqGetBrokerEpochCache, remoting.ReqNotifyBrokerRoleChanged:
		return "there are no replicas; this broker has the only copy"
	case remoting.ReqUpdateAndCreateStaticTopic:
		return "there are no static topics; a topic's queues belong to one broker"
	case remoting.ReqCheckRocksDBCQWriteProgress, remoting.ReqExportRocksDBConfigToJSON:
		return "nothing is kept in RocksDB; exportMetadata writes topics and groups as JSON"
	case remoting.ReqGetTimerCheckPoint, remoting.ReqSwitchTimerEngine:
		return "there is one way of keeping time, and no files of a timing wheel"
	case remoting.ReqPopRollback:
		return "what was popped is in the log; there are no pop records that could be moved"
	case remoting.ReqRegisterFilterServer, remoting.ReqRegisterMessageFilterClass:
		return "filter servers are gone since RocketMQ 4.4; tags and SQL92 filter in the broker"
	}
	switch {
	case code >= remoting.ReqControllerAlterSyncStateSet && code <= remoting.ReqControllerApplyBrokerID:
		return "there is no controller; this broker has the only copy and is always its master"
	case code >= remoting.ReqUpdateColdDataFlowCtrConfig && code <= remoting.ReqSetCommitLogReadMode:
		return "reads of old messages are not slowed down, and the log is not mapped into memory"
	case code >= remoting.ReqAuthCreateUser && code <= remoting.ReqAuthListACL:
		return "there is no access control yet; whoever can connect may do everything"
	case code >= remoting.ReqPopLiteMessage && code <= remoting.ReqTriggerLiteDispatch:
		return "there are no lite topics"
	}
	return ""
}
