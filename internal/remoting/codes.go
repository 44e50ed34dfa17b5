package remoting

// Request codes, as RocketMQ `RequestCode`; what each is for is in the table
// that [Request] reads. TideMQ's own are in codes_tidemq.go.
const (
	ReqSendMessage                          = 10
	ReqPullMessage                          = 11
	ReqQueryMessage                         = 12
	ReqQueryBrokerOffset                    = 13
	ReqQueryConsumerOffset                  = 14
	ReqUpdateConsumerOffset                 = 15
	ReqUpdateAndCreateTopic                 = 17
	ReqUpdateAndCreateTopicList             = 18
	ReqGetAllTopicConfig                    = 21
	ReqGetTopicConfigList                   = 22
	ReqGetTopicNameList                     = 23
	ReqUpdateBrokerConfig                   = 25
	ReqGetBrokerConfig                      = 26
	ReqTriggerDeleteFiles                   = 27
	ReqGetBrokerRuntimeInfo                 = 28
	ReqSearchOffsetByTimestamp              = 29
	ReqGetMaxOffset                         = 30
	ReqGetMinOffset                         = 31
	ReqGetEarliestMsgStoreTime              = 32
	ReqViewMessageByID                      = 33
	ReqHeartBeat                            = 34
	ReqUnregisterClient                     = 35
	ReqConsumerSendMsgBack                  = 36
	ReqEndTransaction                       = 37
	ReqGetConsumerListByGroup               = 38
	ReqCheckTransactionState                = 39
	ReqNotifyConsumerIDsChanged             = 40
	ReqLockBatchMQ                          = 41
	ReqUnlockBatchMQ                        = 42
	ReqGetAllConsumerOffset                 = 43
	ReqGetAllDelayOffset                    = 45
	ReqCheckClientConfig                    = 46
	ReqGetClientConfig                      = 47
	ReqGetTimerCheckPoint                   = 60
	ReqGetTimerMetrics                      = 61
	ReqPutKVConfig                          = 100
	ReqGetKVConfig                          = 101
	ReqDeleteKVConfig                       = 102
	ReqRegisterBroker                       = 103
	ReqUnregisterBroker                     = 104
	ReqGetRouteInfoByTopic                  = 105
	ReqGetBrokerClusterInfo                 = 106
	ReqUpdateAndCreateSubscriptionGroup     = 200
	ReqGetAllSubscriptionGroupConfig        = 201
	ReqGetTopicStatsInfo                    = 202
	ReqGetConsumerConnectionList            = 203
	ReqGetProducerConnectionList            = 204
	ReqWipeWritePermOfBroker                = 205
	ReqGetAllTopicListFromNameserver        = 206
	ReqDeleteSubscriptionGroup              = 207
	ReqGetConsumeStats                      = 208
	ReqSuspendConsumer                      = 209
	ReqResumeConsumer                       = 210
	ReqResetConsumerOffsetInConsumer        = 211
	ReqResetConsumerOffsetInBroker          = 212
	ReqAdjustConsumerThreadPool             = 213
	ReqWhoConsumeTheMessage                 = 214
	ReqDeleteTopicInBroker                  = 215
	ReqDeleteTopicInNamesrv                 = 216
	ReqRegisterTopicInNamesrv               = 217
	ReqGetKVListByNamespace                 = 219
	ReqResetConsumerClientOffset            = 220
	ReqGetConsumerStatusFromClient          = 221
	ReqInvokeBrokerToResetOffset            = 222
	ReqInvokeBrokerToGetConsumerStatus      = 223
	ReqGetTopicsByCluster                   = 224
	ReqUpdateAndCreateSubscriptionGroupList = 225
	ReqQueryTopicConsumeByWho               = 300
	ReqRegisterFilterServer                 = 301
	ReqRegisterMessageFilterClass           = 302
	ReqQueryConsumeTimeSpan                 = 303
	ReqGetSystemTopicListFromNS             = 304
	ReqGetSystemTopicListFromBroker         = 305
	ReqCleanExpiredConsumeQueue             = 306
	ReqGetConsumerRunningInfo               = 307
	ReqQueryCorrectionOffset                = 308
	ReqConsumeMessageDirectly               = 309
	ReqSendMessageV2                        = 310
	ReqGetUnitTopicList                     = 311
	ReqGetHasUnitSubTopicList               = 312
	ReqGetHasUnitSubUnunitTopicList         = 313
	ReqCloneGroupOffset                     = 314
	ReqViewBrokerStatsData                  = 315
	ReqCleanUnusedTopic                     = 316
	ReqGetBrokerConsumeStats                = 317
	ReqUpdateNamesrvConfig                  = 318
	ReqGetNamesrvConfig                     = 319
	ReqSendBatchMessage                     = 320
	ReqQueryConsumeQueue                    = 321
	ReqQueryDataVersion                     = 322
	ReqResumeCheckHalfMessage               = 323
	ReqSendReplyMessage                     = 324
	ReqSendReplyMessageV2                   = 325
	ReqPushReplyMessageToClient             = 326
	ReqAddWritePermOfBroker                 = 327
	ReqGetAllProducerInfo                   = 328
	ReqDeleteExpiredCommitLog               = 329
	ReqGetTopicConfig                       = 351
	ReqGetSubscriptionGroupConfig           = 352
	ReqUpdateAndGetGroupForbidden           = 353
	ReqCheckRocksDBCQWriteProgress          = 354
	ReqExportRocksDBConfigToJSON            = 355
	ReqLitePullMessage                      = 361
	ReqRecallMessage                        = 370
	ReqQueryAssignment                      = 400
	ReqSetMessageRequestMode                = 401
	ReqGetAllMessageRequestMode             = 402
	ReqUpdateAndCreateStaticTopic           = 513
	ReqGetBrokerMemberGroup                 = 901
	ReqAddBroker                            = 902
	ReqRemoveBroker                         = 903
	ReqBrokerHeartbeat                      = 904
	ReqNotifyMinBrokerIDChange              = 905
	ReqExchangeBrokerHAInfo                 = 906
	ReqGetBrokerHAStatus                    = 907
	ReqResetMasterFlushOffset               = 908
	ReqPopMessage                           = 200050
	ReqAckMessage                           = 200051
	ReqPeekMessage                          = 200052
	ReqChangeMessageInvisibleTime           = 200053
	ReqNotification                         = 200054
	ReqPollingInfo                          = 200055
	ReqPopRollback                          = 200056
	ReqBatchAckMessage                      = 200151
	ReqQueryTopicsByConsumer                = 343
	ReqQuerySubscriptionByConsumer          = 345
	ReqControllerAlterSyncStateSet          = 1001
	ReqControllerElectMaster                = 1002
	ReqControllerRegisterBroker             = 1003
	ReqControllerGetReplicaInfo             = 1004
	ReqControllerGetMetadataInfo            = 1005
	ReqControllerGetSyncStateData           = 1006
	ReqGetBrokerEpochCache                  = 1007
	ReqNotifyBrokerRoleChanged              = 1008
	ReqUpdateControllerConfig               = 1009
	ReqGetControllerConfig                  = 1010
	ReqCleanBrokerData                      = 1011
	ReqControllerGetNextBrokerID            = 1012
	ReqControllerApplyBrokerID              = 1013
	ReqUpdateColdDataFlowCtrConfig          = 2001
	ReqRemoveColdDataFlowCtrConfig          = 2002
	ReqGetColdDataFlowCtrInfo               = 2003
	ReqSetCommitLogReadMode                 = 2004
	ReqAuthCreateUser                       = 3001
	ReqAuthUpdateUser                       = 3002
	ReqAuthDeleteUser                       = 3003
	ReqAuthGetUser                          = 3004
	ReqAuthListUser                         = 3005
	ReqAuthCreateACL                        = 3006
	ReqAuthUpdateACL                        = 3007
	ReqAuthDeleteACL                        = 3008
	ReqAuthGetACL                           = 3009
	ReqAuthListACL                          = 3010
	ReqSwitchTimerEngine                    = 5001
	ReqPopLiteMessage                       = 200070
	ReqLiteSubscriptionCtl                  = 200071
	ReqAckLiteMessage                       = 200072
	ReqNotifyUnsubscribeLite                = 200073
	ReqGetBrokerLiteInfo                    = 200074
	ReqGetParentTopicInfo                   = 200075
	ReqGetLiteTopicInfo                     = 200076
	ReqGetLiteClientInfo                    = 200077
	ReqGetLiteGroupInfo                     = 200078
	ReqTriggerLiteDispatch                  = 200079
)

// Response codes, as RocketMQ `ResponseCode` and `RemotingSysResponseCode`; see
// [Response].
const (
	Success                    = 0
	SystemError                = 1
	SystemBusy                 = 2
	RequestCodeNotSupported    = 3
	TransactionFailed          = 4
	FlushDiskTimeout           = 10
	SlaveNotAvailable          = 11
	FlushSlaveTimeout          = 12
	MessageIllegal             = 13
	ServiceNotAvailable        = 14
	VersionNotSupported        = 15
	NoPermission               = 16
	TopicNotExist              = 17
	TopicExistAlready          = 18
	PullNotFound               = 19
	PullRetryImmediately       = 20
	PullOffsetMoved            = 21
	QueryNotFound              = 22
	SubscriptionParseFailed    = 23
	SubscriptionNotExist       = 24
	SubscriptionNotLatest      = 25
	SubscriptionGroupNotExist  = 26
	FilterDataNotExist         = 27
	FilterDataNotLatest        = 28
	InvalidParameter           = 29
	TransactionShouldCommit    = 200
	TransactionShouldRollback  = 201
	TransactionStateUnknown    = 202
	TransactionStateGroupWrong = 203
	NoBuyerID                  = 204
	NotInCurrentUnit           = 205
	ConsumerNotOnline          = 206
	ConsumeMsgTimeout          = 207
	NoMessage                  = 208
	PollingFull                = 209
	PollingTimeout             = 210
	BrokerNotExist             = 211
	BrokerDispatchNotComplete  = 212
	BroadcastConsumption       = 213
	FlowControl                = 215
	NotLeaderForQueue          = 501
	IllegalOperation           = 604
	GoAway                     = 1500
)

// CodeInfo describes a request or response code.
type CodeInfo struct {
	Code int
	Name string // as RocketMQ spells it
	// Meaning says what the request is for, or what the response tells.
	Meaning string
	// Retriable, of a response to a send: another try, on another broker if
	// there is one, may succeed. As RocketMQ `DefaultMQProducer`.
	Retriable bool
}

var requests = []CodeInfo{
	{Code: ReqSendMessage, Name: "SEND_MESSAGE", Meaning: "stores a message; fields by their long names"},
	{Code: ReqPullMessage, Name: "PULL_MESSAGE", Meaning: "reads messages from a queue offset on, waiting for them if asked to"},
	{Code: ReqQueryMessage, Name: "QUERY_MESSAGE", Meaning: "finds messages by key"},
	{Code: ReqQueryBrokerOffset, Name: "QUERY_BROKER_OFFSET", Meaning: "asks for the end of the log"},
	{Code: ReqQueryConsumerOffset, Name: "QUERY_CONSUMER_OFFSET", Meaning: "asks for a group's committed offset in a queue"},
	{Code: ReqUpdateConsumerOffset, Name: "UPDATE_CONSUMER_OFFSET", Meaning: "commits a group's offset in a queue"},
	{Code: ReqUpdateAndCreateTopic, Name: "UPDATE_AND_CREATE_TOPIC", Meaning: "creates or changes a topic"},
	{Code: ReqUpdateAndCreateTopicList, Name: "UPDATE_AND_CREATE_TOPIC_LIST", Meaning: "creates or changes several topics"},
	{Code: ReqGetAllTopicConfig, Name: "GET_ALL_TOPIC_CONFIG", Meaning: "asks for all topics' settings"},
	{Code: ReqGetTopicConfigList, Name: "GET_TOPIC_CONFIG_LIST", Meaning: "asks for some topics' settings"},
	{Code: ReqGetTopicNameList, Name: "GET_TOPIC_NAME_LIST", Meaning: "asks for topics' names"},
	{Code: ReqUpdateBrokerConfig, Name: "UPDATE_BROKER_CONFIG", Meaning: "changes the broker's settings while it runs"},
	{Code: ReqGetBrokerConfig, Name: "GET_BROKER_CONFIG", Meaning: "asks for the broker's settings"},
	{Code: ReqTriggerDeleteFiles, Name: "TRIGGER_DELETE_FILES", Meaning: "starts retention now"},
	{Code: ReqGetBrokerRuntimeInfo, Name: "GET_BROKER_RUNTIME_INFO", Meaning: "asks for the broker's counters"},
	{Code: ReqSearchOffsetByTimestamp, Name: "SEARCH_OFFSET_BY_TIMESTAMP", Meaning: "finds the queue offset stored at or after a time"},
	{Code: ReqGetMaxOffset, Name: "GET_MAX_OFFSET", Meaning: "asks for the end of a queue"},
	{Code: ReqGetMinOffset, Name: "GET_MIN_OFFSET", Meaning: "asks for the beginning of a queue"},
	{Code: ReqGetEarliestMsgStoreTime, Name: "GET_EARLIEST_MSG_STORETIME", Meaning: "asks for the store time of a queue's first message"},
	{Code: ReqViewMessageByID, Name: "VIEW_MESSAGE_BY_ID", Meaning: "reads the message at a physical offset"},
	{Code: ReqHeartBeat, Name: "HEART_BEAT", Meaning: "tells which groups a client belongs to, and what they subscribe"},
	{Code: ReqUnregisterClient, Name: "UNREGISTER_CLIENT", Meaning: "takes a client out of its groups"},
	{Code: ReqConsumerSendMsgBack, Name: "CONSUMER_SEND_MSG_BACK", Meaning: "asks for a message to be delivered to the group again later"},
	{Code: ReqEndTransaction, Name: "END_TRANSACTION", Meaning: "commits or rolls back a prepared message"},
	{Code: ReqGetConsumerListByGroup, Name: "GET_CONSUMER_LIST_BY_GROUP", Meaning: "asks for the client ids of a group"},
	{Code: ReqCheckTransactionState, Name: "CHECK_TRANSACTION_STATE", Meaning: "broker asks a producer what became of a transaction"},
	{Code: ReqNotifyConsumerIDsChanged, Name: "NOTIFY_CONSUMER_IDS_CHANGED", Meaning: "broker tells a consumer that its group's members changed"},
	{Code: ReqLockBatchMQ, Name: "LOCK_BATCH_MQ", Meaning: "locks queues for an orderly consumer"},
	{Code: ReqUnlockBatchMQ, Name: "UNLOCK_BATCH_MQ", Meaning: "gives locked queues back"},
	{Code: ReqGetAllConsumerOffset, Name: "GET_ALL_CONSUMER_OFFSET", Meaning: "asks for all committed offsets"},
	{Code: ReqGetAllDelayOffset, Name: "GET_ALL_DELAY_OFFSET", Meaning: "asks for the offset table of the delay levels"},
	{Code: ReqCheckClientConfig, Name: "CHECK_CLIENT_CONFIG", Meaning: "has a subscription checked before it is used"},
	{Code: ReqGetClientConfig, Name: "GET_CLIENT_CONFIG", Meaning: "asks for a client's settings"},
	{Code: ReqGetTimerCheckPoint, Name: "GET_TIMER_CHECK_POINT", Meaning: "asks for the timers' checkpoint"},
	{Code: ReqGetTimerMetrics, Name: "GET_TIMER_METRICS", Meaning: "asks for the timers' counters"},
	{Code: ReqPutKVConfig, Name: "PUT_KV_CONFIG", Meaning: "name server: sets a key"},
	{Code: ReqGetKVConfig, Name: "GET_KV_CONFIG", Meaning: "name server: asks for a key"},
	{Code: ReqDeleteKVConfig, Name: "DELETE_KV_CONFIG", Meaning: "name server: deletes a key"},
	{Code: ReqRegisterBroker, Name: "REGISTER_BROKER", Meaning: "name server: a broker and its topics"},
	{Code: ReqUnregisterBroker, Name: "UNREGISTER_BROKER", Meaning: "name server: a broker leaves"},
	{Code: ReqGetRouteInfoByTopic, Name: "GET_ROUTEINFO_BY_TOPIC", Meaning: "name server: asks which brokers have a topic"},
	{Code: ReqGetBrokerClusterInfo, Name: "GET_BROKER_CLUSTER_INFO", Meaning: "name server: asks for brokers and clusters"},
	{Code: ReqUpdateAndCreateSubscriptionGroup, Name: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", Meaning: "creates or changes a consumer group"},
	{Code: ReqGetAllSubscriptionGroupConfig, Name: "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", Meaning: "asks for all groups' settings"},
	{Code: ReqGetTopicStatsInfo, Name: "GET_TOPIC_STATS_INFO", Meaning: "asks for the offsets of a topic's queues"},
	{Code: ReqGetConsumerConnectionList, Name: "GET_CONSUMER_CONNECTION_LIST", Meaning: "asks for a group's connections"},
	{Code: ReqGetProducerConnectionList, Name: "GET_PRODUCER_CONNECTION_LIST", Meaning: "asks for a producer group's connections"},
	{Code: ReqWipeWritePermOfBroker, Name: "WIPE_WRITE_PERM_OF_BROKER", Meaning: "name server: takes a broker's topics out of sending"},
	{Code: ReqGetAllTopicListFromNameserver, Name: "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", Meaning: "name server: asks for all topics"},
	{Code: ReqDeleteSubscriptionGroup, Name: "DELETE_SUBSCRIPTIONGROUP", Meaning: "deletes a consumer group"},
	{Code: ReqGetConsumeStats, Name: "GET_CONSUME_STATS", Meaning: "asks how far a group is behind"},
	{Code: ReqSuspendConsumer, Name: "SUSPEND_CONSUMER", Meaning: "stops a consumer"},
	{Code: ReqResumeConsumer, Name: "RESUME_CONSUMER", Meaning: "lets a stopped consumer go on"},
	{Code: ReqResetConsumerOffsetInConsumer, Name: "RESET_CONSUMER_OFFSET_IN_CONSUMER", Meaning: "sets a consumer's offsets"},
	{Code: ReqResetConsumerOffsetInBroker, Name: "RESET_CONSUMER_OFFSET_IN_BROKER", Meaning: "sets a group's offsets in the broker"},
	{Code: ReqAdjustConsumerThreadPool, Name: "ADJUST_CONSUMER_THREAD_POOL", Meaning: "changes a consumer's threads"},
	{Code: ReqWhoConsumeTheMessage, Name: "WHO_CONSUME_THE_MESSAGE", Meaning: "asks which groups read a message"},
	{Code: ReqDeleteTopicInBroker, Name: "DELETE_TOPIC_IN_BROKER", Meaning: "deletes a topic"},
	{Code: ReqDeleteTopicInNamesrv, Name: "DELETE_TOPIC_IN_NAMESRV", Meaning: "name server: forgets a topic"},
	{Code: ReqRegisterTopicInNamesrv, Name: "REGISTER_TOPIC_IN_NAMESRV", Meaning: "name server: a topic's queues"},
	{Code: ReqGetKVListByNamespace, Name: "GET_KVLIST_BY_NAMESPACE", Meaning: "name server: asks for a namespace's keys"},
	{Code: ReqResetConsumerClientOffset, Name: "RESET_CONSUMER_CLIENT_OFFSET", Meaning: "broker hands a consumer new offsets"},
	{Code: ReqGetConsumerStatusFromClient, Name: "GET_CONSUMER_STATUS_FROM_CLIENT", Meaning: "broker asks a consumer for its offsets"},
	{Code: ReqInvokeBrokerToResetOffset, Name: "INVOKE_BROKER_TO_RESET_OFFSET", Meaning: "sets a group's offsets by time or value"},
	{Code: ReqInvokeBrokerToGetConsumerStatus, Name: "INVOKE_BROKER_TO_GET_CONSUMER_STATUS", Meaning: "asks the broker for consumers' offsets"},
	{Code: ReqGetTopicsByCluster, Name: "GET_TOPICS_BY_CLUSTER", Meaning: "name server: asks for a cluster's topics"},
	{Code: ReqUpdateAndCreateSubscriptionGroupList, Name: "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", Meaning: "creates or changes several groups"},
	{Code: ReqQueryTopicConsumeByWho, Name: "QUERY_TOPIC_CONSUME_BY_WHO", Meaning: "asks which groups read a topic"},
	{Code: ReqRegisterFilterServer, Name: "REGISTER_FILTER_SERVER", Meaning: "a filter server's address"},
	{Code: ReqRegisterMessageFilterClass, Name: "REGISTER_MESSAGE_FILTER_CLASS", Meaning: "a filter's Java class"},
	{Code: ReqQueryConsumeTimeSpan, Name: "QUERY_CONSUME_TIME_SPAN", Meaning: "asks for the times of a group's queues"},
	{Code: ReqGetSystemTopicListFromNS, Name: "GET_SYSTEM_TOPIC_LIST_FROM_NS", Meaning: "name server: asks for system topics"},
	{Code: ReqGetSystemTopicListFromBroker, Name: "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", Meaning: "asks for system topics"},
	{Code: ReqCleanExpiredConsumeQueue, Name: "CLEAN_EXPIRED_CONSUMEQUEUE", Meaning: "deletes queues of what is no longer in the log"},
	{Code: ReqGetConsumerRunningInfo, Name: "GET_CONSUMER_RUNNING_INFO", Meaning: "asks a consumer for its state"},
	{Code: ReqQueryCorrectionOffset, Name: "QUERY_CORRECTION_OFFSET", Meaning: "asks for the smallest offsets among groups"},
	{Code: ReqConsumeMessageDirectly, Name: "CONSUME_MESSAGE_DIRECTLY", Meaning: "has one consumer handle one message"},
	{Code: ReqSendMessageV2, Name: "SEND_MESSAGE_V2", Meaning: "stores a message; fields by their short names"},
	{Code: ReqGetUnitTopicList, Name: "GET_UNIT_TOPIC_LIST", Meaning: "name server: asks for topics of units"},
	{Code: ReqGetHasUnitSubTopicList, Name: "GET_HAS_UNIT_SUB_TOPIC_LIST", Meaning: "name server: asks for topics with unit subscriptions"},
	{Code: ReqGetHasUnitSubUnunitTopicList, Name: "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST", Meaning: "name server: asks for other topics with unit subscriptions"},
	{Code: ReqCloneGroupOffset, Name: "CLONE_GROUP_OFFSET", Meaning: "gives one group the offsets of another"},
	{Code: ReqViewBrokerStatsData, Name: "VIEW_BROKER_STATS_DATA", Meaning: "asks for a counter over minutes, hours and days"},
	{Code: ReqCleanUnusedTopic, Name: "CLEAN_UNUSED_TOPIC", Meaning: "deletes what deleted topics left"},
	{Code: ReqGetBrokerConsumeStats, Name: "GET_BROKER_CONSUME_STATS", Meaning: "asks how far all groups are behind"},
	{Code: ReqUpdateNamesrvConfig, Name: "UPDATE_NAMESRV_CONFIG", Meaning: "name server: changes its settings"},
	{Code: ReqGetNamesrvConfig, Name: "GET_NAMESRV_CONFIG", Meaning: "name server: asks for its settings"},
	{Code: ReqSendBatchMessage, Name: "SEND_BATCH_MESSAGE", Meaning: "stores several messages of one queue"},
	{Code: ReqQueryConsumeQueue, Name: "QUERY_CONSUME_QUEUE", Meaning: "reads consume queue entries"},
	{Code: ReqQueryDataVersion, Name: "QUERY_DATA_VERSION", Meaning: "name server: asks whether a broker's topics changed"},
	{Code: ReqResumeCheckHalfMessage, Name: "RESUME_CHECK_HALF_MESSAGE", Meaning: "has a prepared message checked again"},
	{Code: ReqSendReplyMessage, Name: "SEND_REPLY_MESSAGE", Meaning: "answers a request message; fields by their long names"},
	{Code: ReqSendReplyMessageV2, Name: "SEND_REPLY_MESSAGE_V2", Meaning: "answers a request message; fields by their short names"},
	{Code: ReqPushReplyMessageToClient, Name: "PUSH_REPLY_MESSAGE_TO_CLIENT", Meaning: "broker hands a reply to who asked"},
	{Code: ReqAddWritePermOfBroker, Name: "ADD_WRITE_PERM_OF_BROKER", Meaning: "name server: puts a broker's topics into sending again"},
	{Code: ReqGetAllProducerInfo, Name: "GET_ALL_PRODUCER_INFO", Meaning: "asks for all producers"},
	{Code: ReqDeleteExpiredCommitLog, Name: "DELETE_EXPIRED_COMMITLOG", Meaning: "deletes expired segments of the log"},
	{Code: ReqGetTopicConfig, Name: "GET_TOPIC_CONFIG", Meaning: "asks for a topic's settings"},
	{Code: ReqGetSubscriptionGroupConfig, Name: "GET_SUBSCRIPTIONGROUP_CONFIG", Meaning: "asks for a group's settings"},
	{Code: ReqUpdateAndGetGroupForbidden, Name: "UPDATE_AND_GET_GROUP_FORBIDDEN", Meaning: "forbids a group a topic"},
	{Code: ReqCheckRocksDBCQWriteProgress, Name: "CHECK_ROCKSDB_CQ_WRITE_PROGRESS", Meaning: "compares two forms of consume queues"},
	{Code: ReqExportRocksDBConfigToJSON, Name: "EXPORT_ROCKSDB_CONFIG_TO_JSON", Meaning: "writes settings out as JSON"},
	{Code: ReqLitePullMessage, Name: "LITE_PULL_MESSAGE", Meaning: "reads messages, for the lite pull consumer"},
	{Code: ReqRecallMessage, Name: "RECALL_MESSAGE", Meaning: "cancels a message that is not due yet"},
	{Code: ReqQueryAssignment, Name: "QUERY_ASSIGNMENT", Meaning: "asks the broker which queues a consumer has"},
	{Code: ReqSetMessageRequestMode, Name: "SET_MESSAGE_REQUEST_MODE", Meaning: "chooses pull or pop for a group"},
	{Code: ReqGetAllMessageRequestMode, Name: "GET_ALL_MESSAGE_REQUEST_MODE", Meaning: "asks for the groups' modes"},
	{Code: ReqUpdateAndCreateStaticTopic, Name: "UPDATE_AND_CREATE_STATIC_TOPIC", Meaning: "creates or changes a static topic"},
	{Code: ReqGetBrokerMemberGroup, Name: "GET_BROKER_MEMBER_GROUP", Meaning: "name server: asks for a broker's replicas"},
	{Code: ReqAddBroker, Name: "ADD_BROKER", Meaning: "adds a broker to a container"},
	{Code: ReqRemoveBroker, Name: "REMOVE_BROKER", Meaning: "takes a broker out of a container"},
	{Code: ReqBrokerHeartbeat, Name: "BROKER_HEARTBEAT", Meaning: "name server: a broker is alive"},
	{Code: ReqNotifyMinBrokerIDChange, Name: "NOTIFY_MIN_BROKER_ID_CHANGE", Meaning: "name server tells a broker which replica acts as master"},
	{Code: ReqExchangeBrokerHAInfo, Name: "EXCHANGE_BROKER_HA_INFO", Meaning: "replicas exchange addresses"},
	{Code: ReqGetBrokerHAStatus, Name: "GET_BROKER_HA_STATUS", Meaning: "asks for the state of replication"},
	{Code: ReqResetMasterFlushOffset, Name: "RESET_MASTER_FLUSH_OFFSET", Meaning: "sets what a replica takes as flushed"},
	{Code: ReqPopMessage, Name: "POP_MESSAGE", Meaning: "takes messages whose queues the broker divides"},
	{Code: ReqAckMessage, Name: "ACK_MESSAGE", Meaning: "acknowledges a popped message"},
	{Code: ReqPeekMessage, Name: "PEEK_MESSAGE", Meaning: "reads messages without taking them"},
	{Code: ReqChangeMessageInvisibleTime, Name: "CHANGE_MESSAGE_INVISIBLETIME", Meaning: "keeps a popped message hidden for longer"},
	{Code: ReqNotification, Name: "NOTIFICATION", Meaning: "asks whether there is anything to pop"},
	{Code: ReqPollingInfo, Name: "POLLING_INFO", Meaning: "asks how many pops are held"},
	{Code: ReqPopRollback, Name: "POP_ROLLBACK", Meaning: "gives popped messages back"},
	{Code: ReqBatchAckMessage, Name: "BATCH_ACK_MESSAGE", Meaning: "acknowledges several popped messages"},
	{Code: ReqQueryTopicsByConsumer, Name: "QUERY_TOPICS_BY_CONSUMER", Meaning: "asks which topics a group has offsets in"},
	{Code: ReqQuerySubscriptionByConsumer, Name: "QUERY_SUBSCRIPTION_BY_CONSUMER", Meaning: "asks for a group's subscription to a topic"},
	{Code: ReqControllerAlterSyncStateSet, Name: "CONTROLLER_ALTER_SYNC_STATE_SET", Meaning: "controller: replicas that are in sync changed"},
	{Code: ReqControllerElectMaster, Name: "CONTROLLER_ELECT_MASTER", Meaning: "controller: chooses a master"},
	{Code: ReqControllerRegisterBroker, Name: "CONTROLLER_REGISTER_BROKER", Meaning: "controller: a broker"},
	{Code: ReqControllerGetReplicaInfo, Name: "CONTROLLER_GET_REPLICA_INFO", Meaning: "controller: asks for a broker's replicas"},
	{Code: ReqControllerGetMetadataInfo, Name: "CONTROLLER_GET_METADATA_INFO", Meaning: "controller: asks for its state"},
	{Code: ReqControllerGetSyncStateData, Name: "CONTROLLER_GET_SYNC_STATE_DATA", Meaning: "controller: asks which replicas are in sync"},
	{Code: ReqGetBrokerEpochCache, Name: "GET_BROKER_EPOCH_CACHE", Meaning: "asks for a replica's epochs"},
	{Code: ReqNotifyBrokerRoleChanged, Name: "NOTIFY_BROKER_ROLE_CHANGED", Meaning: "controller tells a broker its role"},
	{Code: ReqUpdateControllerConfig, Name: "UPDATE_CONTROLLER_CONFIG", Meaning: "controller: changes its settings"},
	{Code: ReqGetControllerConfig, Name: "GET_CONTROLLER_CONFIG", Meaning: "controller: asks for its settings"},
	{Code: ReqCleanBrokerData, Name: "CLEAN_BROKER_DATA", Meaning: "controller: forgets a broker"},
	{Code: ReqControllerGetNextBrokerID, Name: "CONTROLLER_GET_NEXT_BROKER_ID", Meaning: "controller: asks for the next broker id"},
	{Code: ReqControllerApplyBrokerID, Name: "CONTROLLER_APPLY_BROKER_ID", Meaning: "controller: takes a broker id"},
	{Code: ReqUpdateColdDataFlowCtrConfig, Name: "UPDATE_COLD_DATA_FLOW_CTR_CONFIG", Meaning: "slows down reads of old messages by a group"},
	{Code: ReqRemoveColdDataFlowCtrConfig, Name: "REMOVE_COLD_DATA_FLOW_CTR_CONFIG", Meaning: "no longer slows down a group"},
	{Code: ReqGetColdDataFlowCtrInfo, Name: "GET_COLD_DATA_FLOW_CTR_INFO", Meaning: "asks which groups are slowed down"},
	{Code: ReqSetCommitLogReadMode, Name: "SET_COMMITLOG_READ_MODE", Meaning: "chooses how the log is read ahead"},
	{Code: ReqAuthCreateUser, Name: "AUTH_CREATE_USER", Meaning: "creates a user"},
	{Code: ReqAuthUpdateUser, Name: "AUTH_UPDATE_USER", Meaning: "changes a user"},
	{Code: ReqAuthDeleteUser, Name: "AUTH_DELETE_USER", Meaning: "deletes a user"},
	{Code: ReqAuthGetUser, Name: "AUTH_GET_USER", Meaning: "asks for a user"},
	{Code: ReqAuthListUser, Name: "AUTH_LIST_USER", Meaning: "asks for all users"},
	{Code: ReqAuthCreateACL, Name: "AUTH_CREATE_ACL", Meaning: "creates a rule of access"},
	{Code: ReqAuthUpdateACL, Name: "AUTH_UPDATE_ACL", Meaning: "changes a rule of access"},
	{Code: ReqAuthDeleteACL, Name: "AUTH_DELETE_ACL", Meaning: "deletes a rule of access"},
	{Code: ReqAuthGetACL, Name: "AUTH_GET_ACL", Meaning: "asks for a rule of access"},
	{Code: ReqAuthListACL, Name: "AUTH_LIST_ACL", Meaning: "asks for all rules of access"},
	{Code: ReqSwitchTimerEngine, Name: "SWITCH_TIMER_ENGINE", Meaning: "chooses how timers are kept"},
	{Code: ReqPopLiteMessage, Name: "POP_LITE_MESSAGE", Meaning: "takes messages of lite topics"},
	{Code: ReqLiteSubscriptionCtl, Name: "LITE_SUBSCRIPTION_CTL", Meaning: "subscribes lite topics"},
	{Code: ReqAckLiteMessage, Name: "ACK_LITE_MESSAGE", Meaning: "acknowledges messages of lite topics"},
	{Code: ReqNotifyUnsubscribeLite, Name: "NOTIFY_UNSUBSCRIBE_LITE", Meaning: "broker tells a client that a lite subscription ended"},
	{Code: ReqGetBrokerLiteInfo, Name: "GET_BROKER_LITE_INFO", Meaning: "asks for the state of lite topics"},
	{Code: ReqGetParentTopicInfo, Name: "GET_PARENT_TOPIC_INFO", Meaning: "asks for the lite topics of a topic"},
	{Code: ReqGetLiteTopicInfo, Name: "GET_LITE_TOPIC_INFO", Meaning: "asks for a lite topic"},
	{Code: ReqGetLiteClientInfo, Name: "GET_LITE_CLIENT_INFO", Meaning: "asks for a client's lite topics"},
	{Code: ReqGetLiteGroupInfo, Name: "GET_LITE_GROUP_INFO", Meaning: "asks for a group's lite topics"},
	{Code: ReqTriggerLiteDispatch, Name: "TRIGGER_LITE_DISPATCH", Meaning: "has lite topics dispatched"},
	{Code: ReqTideLevels, Name: "TIDE_LEVELS", Meaning: "asks for the state of the delay levels"},
	{Code: ReqTideOffsets, Name: "TIDE_OFFSETS", Meaning: "asks for a group's offsets and members"},
	{Code: ReqTideResetOffsets, Name: "TIDE_RESET_OFFSETS", Meaning: "moves a group's offsets"},
}

var responses = []CodeInfo{
	{Code: Success, Name: "SUCCESS", Meaning: "done"},
	{Code: SystemError, Name: "SYSTEM_ERROR", Meaning: "an error in the broker", Retriable: true},
	{Code: SystemBusy, Name: "SYSTEM_BUSY", Meaning: "the broker has too much to do", Retriable: true},
	{Code: RequestCodeNotSupported, Name: "REQUEST_CODE_NOT_SUPPORTED", Meaning: "the broker does not know the request"},
	{Code: TransactionFailed, Name: "TRANSACTION_FAILED", Meaning: "the transaction failed"},
	{Code: FlushDiskTimeout, Name: "FLUSH_DISK_TIMEOUT", Meaning: "stored, but not known to be on disk"},
	{Code: SlaveNotAvailable, Name: "SLAVE_NOT_AVAILABLE", Meaning: "stored, but on no replica"},
	{Code: FlushSlaveTimeout, Name: "FLUSH_SLAVE_TIMEOUT", Meaning: "stored, but not known to be on a replica"},
	{Code: MessageIllegal, Name: "MESSAGE_ILLEGAL", Meaning: "the message breaks a rule or limit"},
	{Code: ServiceNotAvailable, Name: "SERVICE_NOT_AVAILABLE", Meaning: "the broker cannot store now: starting, stopping, or its disk is full", Retriable: true},
	{Code: VersionNotSupported, Name: "VERSION_NOT_SUPPORTED", Meaning: "the client is too old or too new"},
	{Code: NoPermission, Name: "NO_PERMISSION", Meaning: "the topic or group forbids it", Retriable: true},
	{Code: TopicNotExist, Name: "TOPIC_NOT_EXIST", Meaning: "there is no such topic", Retriable: true},
	{Code: TopicExistAlready, Name: "TOPIC_EXIST_ALREADY", Meaning: "there is such a topic"},
	{Code: PullNotFound, Name: "PULL_NOT_FOUND", Meaning: "no message at this offset yet"},
	{Code: PullRetryImmediately, Name: "PULL_RETRY_IMMEDIATELY", Meaning: "none of the messages matched; pull again from the offset told"},
	{Code: PullOffsetMoved, Name: "PULL_OFFSET_MOVED", Meaning: "the offset is outside the queue; go on from the offset told"},
	{Code: QueryNotFound, Name: "QUERY_NOT_FOUND", Meaning: "nothing found"},
	{Code: SubscriptionParseFailed, Name: "SUBSCRIPTION_PARSE_FAILED", Meaning: "the subscription's expression is wrong"},
	{Code: SubscriptionNotExist, Name: "SUBSCRIPTION_NOT_EXIST", Meaning: "the group has no subscription to the topic"},
	{Code: SubscriptionNotLatest, Name: "SUBSCRIPTION_NOT_LATEST", Meaning: "the broker knows a newer subscription"},
	{Code: SubscriptionGroupNotExist, Name: "SUBSCRIPTION_GROUP_NOT_EXIST", Meaning: "there is no such group"},
	{Code: FilterDataNotExist, Name: "FILTER_DATA_NOT_EXIST", Meaning: "the broker has no filter of the consumer"},
	{Code: FilterDataNotLatest, Name: "FILTER_DATA_NOT_LATEST", Meaning: "the broker has an older filter of the consumer"},
	{Code: InvalidParameter, Name: "INVALID_PARAMETER", Meaning: "a field's value is not allowed"},
	{Code: TransactionShouldCommit, Name: "TRANSACTION_SHOULD_COMMIT", Meaning: "commit"},
	{Code: TransactionShouldRollback, Name: "TRANSACTION_SHOULD_ROLLBACK", Meaning: "roll back"},
	{Code: TransactionStateUnknown, Name: "TRANSACTION_STATE_UNKNOW", Meaning: "not decided yet"},
	{Code: TransactionStateGroupWrong, Name: "TRANSACTION_STATE_GROUP_WRONG", Meaning: "the transaction belongs to another group"},
	{Code: NoBuyerID, Name: "NO_BUYER_ID", Meaning: "the message has no buyer", Retriable: true},
	{Code: NotInCurrentUnit, Name: "NOT_IN_CURRENT_UNIT", Meaning: "the message belongs to another unit", Retriable: true},
	{Code: ConsumerNotOnline, Name: "CONSUMER_NOT_ONLINE", Meaning: "no such consumer is connected"},
	{Code: ConsumeMsgTimeout, Name: "CONSUME_MSG_TIMEOUT", Meaning: "the consumer did not finish in time"},
	{Code: NoMessage, Name: "NO_MESSAGE", Meaning: "there is no such message"},
	{Code: PollingFull, Name: "POLLING_FULL", Meaning: "too many requests are held"},
	{Code: PollingTimeout, Name: "POLLING_TIMEOUT", Meaning: "the held request's time is over"},
	{Code: BrokerNotExist, Name: "BROKER_NOT_EXIST", Meaning: "there is no such broker"},
	{Code: BrokerDispatchNotComplete, Name: "BROKER_DISPATCH_NOT_COMPLETE", Meaning: "not all of the log is in its queues yet"},
	{Code: BroadcastConsumption, Name: "BROADCAST_CONSUMPTION", Meaning: "the group broadcasts, so it has no offsets in the broker"},
	{Code: FlowControl, Name: "FLOW_CONTROL", Meaning: "too many requests of this kind"},
	{Code: NotLeaderForQueue, Name: "NOT_LEADER_FOR_QUEUE", Meaning: "the queue belongs to another broker"},
	{Code: IllegalOperation, Name: "ILLEGAL_OPERATION", Meaning: "not allowed in this state"},
	{Code: GoAway, Name: "GO_AWAY", Meaning: "the server is stopping; connect elsewhere", Retriable: true},
}

var requestsByCode, responsesByCode = byCode(requests), byCode(responses)

func byCode(infos []CodeInfo) map[int]*CodeInfo {
	m := make(map[int]*CodeInfo, len(infos))
	for i := range infos {
		m[infos[i].Code] = &infos[i]
	}
	return m
}

// Request returns what is known about a request code.
func Request(code int) (CodeInfo, bool) { return lookUp(requestsByCode, code) }

// Response returns what is known about a response code.
func Response(code int) (CodeInfo, bool) { return lookUp(responsesByCode, code) }

func lookUp(m map[int]*CodeInfo, code int) (CodeInfo, bool) {
	if info, ok := m[code]; ok {
		return *info, true
	}
	return CodeInfo{Code: code, Name: "UNKNOWN"}, false
}

// RequestName returns a request code's name, UNKNOWN for one not listed.
func RequestName(code int) string {
	info, _ := Request(code)
	return info.Name
}

// ResponseName returns a response code's name, UNKNOWN for one not listed.
func ResponseName(code int) string {
	info, _ := Response(code)
	return info.Name
}

// Retriable reports whether a send answered with code may be tried again.
func Retriable(code int) bool {
	info, _ := Response(code)
	return info.Retriable
}
