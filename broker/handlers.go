package broker

import "github.com/tidemq/tidemq/internal/remoting"

// handlerFor returns how a request code is served; everything that is not
// listed is answered with code 3.
func handlerFor(code int) (handler, bool) {
	switch code {
	// Messages: send.go, sendback.go, pull.go.
	case remoting.ReqSendMessage, remoting.ReqSendMessageV2:
		return handler{serve: sendMessage, borrows: true, ordered: true}, true
	case remoting.ReqSendBatchMessage:
		return handler{serve: sendBatchMessage, borrows: true, ordered: true}, true
	case remoting.ReqPullMessage, remoting.ReqLitePullMessage:
		return handler{serve: pullMessage, borrows: true}, true
	case remoting.ReqConsumerSendMsgBack:
		return handler{serve: sendBack}, true
	case remoting.ReqSendReplyMessage, remoting.ReqSendReplyMessageV2: // reply.go
		return handler{serve: sendReply, apart: true}, true
	case remoting.ReqEndTransaction: // transaction.go
		return handler{serve: endTransaction, apart: true}, true
	case remoting.ReqViewMessageByID:
		return handler{serve: viewMessage}, true

	// Offsets: offset.go, reset.go.
	case remoting.ReqUpdateConsumerOffset:
		return handler{serve: updateOffset, borrows: true, ordered: true, late: true}, true
	case remoting.ReqQueryConsumerOffset:
		return handler{serve: queryOffset, borrows: true}, true
	case remoting.ReqSearchOffsetByTimestamp:
		return handler{serve: searchOffset}, true
	case remoting.ReqGetMaxOffset:
		return handler{serve: maxOffset, borrows: true}, true
	case remoting.ReqGetMinOffset:
		return handler{serve: minOffset, borrows: true}, true
	case remoting.ReqGetEarliestMsgStoreTime:
		return handler{serve: earliestStoreTime}, true
	case remoting.ReqInvokeBrokerToResetOffset:
		return handler{serve: invokeReset, apart: true}, true

	// Clients and groups: heartbeat.go, relay.go.
	case remoting.ReqHeartBeat:
		return handler{serve: heartbeat}, true
	case remoting.ReqUnregisterClient:
		return handler{serve: unregister}, true
	case remoting.ReqCheckClientConfig:
		return handler{serve: checkClient}, true
	case remoting.ReqGetConsumerListByGroup:
		return handler{serve: consumerList}, true
	case remoting.ReqLockBatchMQ:
		return handler{serve: lockQueues}, true
	case remoting.ReqUnlockBatchMQ:
		return handler{serve: unlockQueues}, true
	case remoting.ReqGetConsumerRunningInfo:
		return handler{serve: runningInfo, apart: true}, true
	case remoting.ReqConsumeMessageDirectly:
		return handler{serve: consumeDirectly, apart: true}, true

	// Pop: pop.go, popack.go, poplook.go, assignment.go.
	case remoting.ReqPopMessage:
		return handler{serve: popMessage, apart: true}, true
	case remoting.ReqAckMessage:
		return handler{serve: ackMessage}, true
	case remoting.ReqBatchAckMessage:
		return handler{serve: ackBatch}, true
	case remoting.ReqChangeMessageInvisibleTime:
		return handler{serve: changeInvisible}, true
	case remoting.ReqPeekMessage:
		return handler{serve: peekMessage, apart: true}, true
	case remoting.ReqNotification:
		return handler{serve: notification, apart: true}, true
	case remoting.ReqPollingInfo:
		return handler{serve: pollingInfo}, true
	case remoting.ReqQueryAssignment:
		return handler{serve: queryAssignment}, true
	case remoting.ReqSetMessageRequestMode:
		return handler{serve: setRequestMode, apart: true}, true
	case remoting.ReqGetAllMessageRequestMode:
		return handler{serve: allRequestModes}, true

	// Name server and topics: route.go.
	case remoting.ReqGetRouteInfoByTopic:
		return handler{serve: route}, true
	case remoting.ReqGetBrokerClusterInfo:
		return handler{serve: clusterInfo}, true
	case remoting.ReqGetAllTopicListFromNameserver, remoting.ReqGetTopicsByCluster:
		return handler{serve: allTopics}, true
	case remoting.ReqUpdateAndCreateTopic:
		return handler{serve: createTopic, apart: true}, true
	case remoting.ReqDeleteTopicInBroker:
		return handler{serve: deleteTopic, apart: true}, true
	case remoting.ReqDeleteTopicInNamesrv:
		return handler{serve: deleteRoute}, true

	// Settings: admin.go.
	case remoting.ReqGetAllTopicConfig:
		return handler{serve: allTopicConfig, apart: true}, true
	case remoting.ReqGetTopicConfig:
		return handler{serve: oneTopicConfig}, true
	case remoting.ReqGetAllSubscriptionGroupConfig:
		return handler{serve: allGroupConfig, apart: true}, true
	case remoting.ReqGetSubscriptionGroupConfig:
		return handler{serve: oneGroupConfig}, true
	case remoting.ReqUpdateAndCreateSubscriptionGroup:
		return handler{serve: updateGroup, apart: true}, true
	case remoting.ReqDeleteSubscriptionGroup:
		return handler{serve: deleteGroup, apart: true}, true

	// What is going on: stats.go, tidemq.go.
	case remoting.ReqGetTopicStatsInfo:
		return handler{serve: topicStats, apart: true}, true
	case remoting.ReqGetConsumerConnectionList:
		return handler{serve: consumerConnections}, true
	case remoting.ReqGetProducerConnectionList:
		return handler{serve: producerConnections}, true
	case remoting.ReqGetAllProducerInfo:
		return handler{serve: allProducers}, true
	case remoting.ReqTideLevels:
		return handler{serve: levelStates}, true
	case remoting.ReqTideOffsets:
		return handler{serve: groupOffsets, apart: true}, true
	case remoting.ReqTideResetOffsets:
		return handler{serve: resetGroup, apart: true}, true
	}
	return adminHandler(code)
}
