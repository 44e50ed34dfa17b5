package broker

import "github.com/tidemq/tidemq/internal/remoting"

// adminHandler is handlerFor for what tools ask and clients do not.
func adminHandler(code int) (handler, bool) {
	switch code {
	// Settings: settings.go.
	case remoting.ReqGetBrokerConfig:
		return handler{serve: brokerConfig}, true
	case remoting.ReqUpdateBrokerConfig:
		return handler{serve: updateBrokerConfig, apart: true}, true

	// How far groups are: consumestats.go.
	case remoting.ReqGetConsumeStats:
		return handler{serve: consumeStats, apart: true}, true
	case remoting.ReqGetBrokerConsumeStats:
		return handler{serve: brokerConsumeStats, apart: true}, true
	case remoting.ReqQueryConsumeTimeSpan:
		return handler{serve: consumeTimeSpan, apart: true}, true
	case remoting.ReqQueryTopicConsumeByWho:
		return handler{serve: groupsOfTopic, apart: true}, true
	case remoting.ReqQueryTopicsByConsumer:
		return handler{serve: topicsOfGroup}, true
	case remoting.ReqQuerySubscriptionByConsumer:
		return handler{serve: groupSubscription}, true
	case remoting.ReqGetAllConsumerOffset:
		return handler{serve: allOffsets, apart: true}, true
	case remoting.ReqGetAllDelayOffset:
		return handler{serve: allDelayOffsets}, true
	case remoting.ReqQueryCorrectionOffset:
		return handler{serve: correctionOffsets, apart: true}, true
	case remoting.ReqCloneGroupOffset:
		return handler{serve: cloneOffsets, apart: true}, true
	case remoting.ReqInvokeBrokerToGetConsumerStatus:
		return handler{serve: consumerStatus, apart: true}, true

	// Several topics or groups at once: route.go, admin.go.
	case remoting.ReqUpdateAndCreateTopicList:
		return handler{serve: createTopics, apart: true}, true
	case remoting.ReqUpdateAndCreateSubscriptionGroupList:
		return handler{serve: updateGroups, apart: true}, true

	// Name server: namesrv.go.
	case remoting.ReqPutKVConfig:
		return handler{serve: putKV, apart: true}, true
	case remoting.ReqGetKVConfig:
		return handler{serve: getKV}, true
	case remoting.ReqDeleteKVConfig:
		return handler{serve: deleteKV, apart: true}, true
	case remoting.ReqGetKVListByNamespace:
		return handler{serve: listKV}, true
	case remoting.ReqWipeWritePermOfBroker, remoting.ReqAddWritePermOfBroker:
		return handler{serve: writePerm}, true
	case remoting.ReqGetSystemTopicListFromNS, remoting.ReqGetSystemTopicListFromBroker:
		return handler{serve: systemTopics}, true
	case remoting.ReqGetUnitTopicList, remoting.ReqGetHasUnitSubTopicList, remoting.ReqGetHasUnitSubUnunitTopicList:
		return handler{serve: unitTopics}, true
	case remoting.ReqGetNamesrvConfig:
		return handler{serve: namesrvConfig}, true
	case remoting.ReqUpdateNamesrvConfig:
		return handler{serve: updateNamesrvConfig, apart: true}, true

	// Log and queues: logadmin.go.
	case remoting.ReqQueryConsumeQueue:
		return handler{serve: queryConsumeQueue, apart: true}, true
	case remoting.ReqCleanExpiredConsumeQueue, remoting.ReqCleanUnusedTopic:
		return handler{serve: nothingToClean}, true
	case remoting.ReqGetBrokerHAStatus:
		return handler{serve: haStatus}, true

	// Counters: runtimeinfo.go.
	case remoting.ReqGetBrokerRuntimeInfo:
		return handler{serve: runtimeInfo, apart: true}, true
	case remoting.ReqViewBrokerStatsData:
		return handler{serve: brokerStatsData}, true
	}
	return handler{}, false
}
