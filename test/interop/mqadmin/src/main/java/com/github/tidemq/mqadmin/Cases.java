package com.github.tidemq.mqadmin;

import static com.github.tidemq.mqadmin.Case.notYet;
import static com.github.tidemq.mqadmin.Case.whyNot;
import static com.github.tidemq.mqadmin.Case.works;

import java.util.List;

/** All commands of mqadmin 5.5.0, in an order in which each finds what it needs. */
final class Cases {
    private Cases() {
    }

    static List<Case> all() {
        return List.of(
            // Topics.
            works("updateTopic -n <ns> -b <broker> -t made -r 4 -w 4 -p 6 -a +message.type=DELAY", "create topic to .* success"),
            works("updateTopic -n <ns> -c DefaultCluster -t made -r 8 -w 8 -o true", "success").oneMore(),
            works("updateTopicList -n <ns> -b <broker> -f <dir>/topics.json", "success"),
            works("updateTopicPerm -n <ns> -b <broker> -t made -p 4", "update topic perm from 6 to 4 .*success"),
            works("topicList -n <ns>", "made"),
            works("topicList -n <ns> -c DefaultCluster", "DefaultCluster +orders +billing").oneMore(),
            works("topicRoute -n <ns> -t orders", "brokerDatas"),
            works("topicClusterList -n <ns> -t orders", "DefaultCluster"),
            works("topicStatus -n <ns> -t orders", "tidemq +0 +0 +2 "),
            works("allocateMQ -n <ns> -t orders -i 10.0.0.1,10.0.0.2", "10.0.0.2"),
            works("deleteTopic -n <ns> -c DefaultCluster -t to-delete", "success"),
            works("updateOrderConf -n <ns> -t orders -m put -v tidemq:4", "success"),
            works("updateOrderConf -n <ns> -t orders -m get", "tidemq:4").oneMore(),
            works("updateOrderConf -n <ns> -t orders -m delete", "success").oneMore(),
            whyNot("updateStaticTopic -n <ns> -b tidemq -t fixed -qn 4", "static topics"),
            whyNot("remappingStaticTopic -n <ns> -b tidemq -t orders", "static|mapping").note("there are no static topics; a topic's queues belong to one broker"),

            // Groups.
            works("updateSubGroup -n <ns> -b <broker> -g made-group -s true -r 5 -q 2", "success"),
            works("updateSubGroupList -n <ns> -b <broker> -f <dir>/groups.json", "success"),
            works("getConsumerConfig -n <ns> -g made-group", "retryMaxTimes += +5"),
            works("deleteSubGroup -n <ns> -b <broker> -g list-group-a", "success"),
            notYet("setConsumeMode -n <ns> -b <broker> -t orders -g made-group -m PULL", "is not supported"),
            works("consumerConnection -n <ns> -g billing", "JAVA"),
            works("producerConnection -n <ns> -g shop -t orders", "JAVA"),
            works("producer -n <ns> -b <broker>", "shop"),
            works("consumerProgress -n <ns>", "billing"),
            works("consumerProgress -n <ns> -g billing -s true", "Consume TPS").oneMore(),
            works("consumerStatus -n <ns> -g billing", "Rebalance OK"),
            works("consumerStatus -n <ns> -g billing -i <client-id> -s", "Rebalance|mqTable|jstack|Thread").oneMore(),

            // Offsets.
            works("cloneGroupOffset -n <ns> -s billing -d copy -t orders -o true", "clone group offset success"),
            works("resetOffsetByTime -n <ns> -g billing -t orders -s now", "tidemq +0 +2"),
            works("resetOffsetByTime -n <ns> -g copy -t orders -s 0", "tidemq").oneMore(),
            works("skipAccumulatedMessage -n <ns> -g billing -t orders", "tidemq +0 +2"),

            // Messages.
            works("queryMsgById -n <ns> -t orders -i <msg-id>", "Tags: +\\[paid\\]"),
            notYet("queryMsgByKey -n <ns> -t orders -k order-3", "no message").note("finds nothing: there is no index of keys yet"),
            notYet("queryMsgByUniqueKey -n <ns> -t orders -i <unique-key>", "no message").note("finds nothing: there is no index of keys yet"),
            works("queryMsgByOffset -n <ns> -t orders -b tidemq -i <queue> -o <offset>", "Tags: +\\[paid\\]"),
            notYet("queryMsgTraceById -n <ns> -i <unique-key>", "no message").note("finds nothing: there is no index of keys yet"),
            works("printMsg -n <ns> -t orders", "order 7"),
            works("printMsgByQueue -n <ns> -t orders -a tidemq -i 0 -p true -d true", "order"),
            works("sendMsgStatus -n <ns> -b tidemq -s 16 -c 2", "SEND_OK"),
            works("checkMsgSendRT -n <ns> -t orders -a 3 -s 16", "Avg RT"),
            works("clusterRT -n <ns> -a 3 -s 16 -i 1", "DefaultCluster +tidemq +[0-9.]+ +3 +0").untilPrinted(),
            works("sendMessage -n <ns> -t orders -p 'hello there' -k k1 -c t1", "SEND_OK"),
            works("consumeMessage -n <ns> -t orders -b tidemq -i <queue> -o <offset> -c 1", "order"),
            works("queryCq -n <ns> -b <broker> -t orders -q 0 -i 0 -c 2", "physicOffset=\\d+, physicSize=\\d+"),

            // Broker.
            works("brokerStatus -n <ns> -b <broker>", "msgPutTotalTodayNow"),
            works("brokerConsumeStats -n <ns> -b <broker>", "Diff Total"),
            works("getBrokerConfig -n <ns> -b <broker>", "messageDelayLevel"),
            works("updateBrokerConfig -n <ns> -b <broker> -k maxMessageSize -v 1048576", "success"),
            works("clusterList -n <ns>", "DefaultCluster +tidemq +0"),
            works("clusterList -n <ns> -m", "tidemq").oneMore(),
            works("statsAll -n <ns>", "orders +billing"),
            works("cleanExpiredCQ -n <ns> -b <broker>", "success"),
            works("cleanUnusedTopic -n <ns> -b <broker>", "success"),
            notYet("deleteExpiredCommitLog -n <ns> -b <broker>", "is not supported"),
            works("haStatus -n <ns> -b <broker>", "#MasterCommitLogMaxOffset\\s+\\d+.*#SlaveNum\\s+0"),

            // Name server.
            works("updateKvConfig -n <ns> -s space -k key -v 'a value'", "success"),
            works("deleteKvConfig -n <ns> -s space -k key", "success"),
            works("wipeWritePerm -n <ns> -b tidemq", "wipe write perm of broker.* OK"),
            works("addWritePerm -n <ns> -b tidemq", "add write perm of broker.* OK"),
            works("getNamesrvConfig -n <ns>", "orderMessageEnable"),
            works("updateNamesrvConfig -n <ns> -k orderMessageEnable -v true", "success"),

            // Export.
            works("exportMetadata -n <ns> -c DefaultCluster -f <dir>/export", "export .* success"),
            works("exportConfigs -n <ns> -c DefaultCluster -f <dir>/export", "export .* success"),
            works("exportMetrics -n <ns> -c DefaultCluster -f <dir>/export", "export .* success"),
            whyNot("exportMetadataInRocksDB -p <dir> -t topics", "RocksDB").note("it reads RocksDB's files, and nothing is kept in RocksDB; exportMetadata works"),
            whyNot("exportPopRecord -n <ns> -b <broker>", "is not supported"),
            whyNot("rocksDBConfigToJson -n <ns> -b <broker> -t topics", "RocksDB|rocksdb")
                .note("it reads RocksDB's files, and nothing is kept in RocksDB; exportMetadata works"),
            whyNot("checkRocksdbCqWriteProgress -n <ns> -c DefaultCluster", "RocksDB"),

            // Replicas, containers, controllers.
            whyNot("addBroker -n <ns> -c <broker> -b broker.conf", "no container"),
            whyNot("removeBroker -n <ns> -c <broker> -b DefaultCluster:tidemq:1", "no container"),
            whyNot("resetMasterFlushOffset -n <ns> -b <broker> -o 0", "no replicas"),
            whyNot("getBrokerEpoch -n <ns> -b tidemq", "no replicas"),
            whyNot("getSyncStateSet -n <ns> -a <broker> -b tidemq", "no controller"),
            whyNot("getControllerMetaData -a <broker>", "no controller"),
            whyNot("getControllerConfig -a <broker>", "no controller"),
            whyNot("updateControllerConfig -a <broker> -k a -v b", "no controller"),
            whyNot("electMaster -a <broker> -b 0 -bn tidemq -c DefaultCluster", "no controller"),
            whyNot("cleanBrokerMetadata -a <broker> -bn tidemq -c DefaultCluster -l", "no controller"),

            // What there is none of.
            works("dumpCompactionLog -f <dir>/topics.json", "").note("on a file of this machine; the broker writes none"),
            whyNot("getColdDataFlowCtrInfo -n <ns> -b <broker>", "slowed down"),
            whyNot("updateColdDataFlowCtrGroupConfig -n <ns> -b <broker> -g billing -v 1", "slowed down"),
            whyNot("removeColdDataFlowCtrGroupConfig -n <ns> -b <broker> -g billing", "slowed down"),
            whyNot("setCommitLogReadAheadMode -n <ns> -b <broker> -m 0", "slowed down"),
            whyNot("switchTimerEngine -n <ns> -b <broker> -e R", "one way of keeping time"),
            whyNot("createUser -n <ns> -b <broker> -u u -p p", "no access control"),
            whyNot("updateUser -n <ns> -b <broker> -u u -p p", "no access control"),
            whyNot("deleteUser -n <ns> -b <broker> -u u", "no access control"),
            whyNot("getUser -n <ns> -b <broker> -u u", "no access control"),
            whyNot("listUser -n <ns> -b <broker>", "no access control"),
            whyNot("copyUser -f <broker> -t <broker> -u u", "no access control"),
            whyNot("createAcl -n <ns> -b <broker> -s User:u -r Topic:* -a Pub -d Allow", "no access control"),
            whyNot("updateAcl -n <ns> -b <broker> -s User:u -r Topic:* -a Pub -d Allow", "no access control"),
            whyNot("deleteAcl -n <ns> -b <broker> -s User:u -r Topic:*", "no access control"),
            whyNot("getAcl -n <ns> -b <broker> -s User:u", "no access control"),
            whyNot("listAcl -n <ns> -b <broker>", "no access control"),
            whyNot("copyAcl -f <broker> -t <broker> -s User:u", "no access control"),
            whyNot("getBrokerLiteInfo -n <ns> -b <broker>", "no lite topics"),
            whyNot("getParentTopicInfo -n <ns> -p orders", "tidemq\\]? +error").note("there are no lite topics"),
            whyNot("getLiteTopicInfo -n <ns> -p orders -l l", "tidemq\\]? +error").note("there are no lite topics"),
            whyNot("getLiteClientInfo -n <ns> -p orders -g billing -c <client-id>", "tidemq\\]? +error").note("there are no lite topics"),
            whyNot("getLiteGroupInfo -n <ns> -p orders -g billing", "tidemq\\]? +error").note("there are no lite topics"),
            whyNot("triggerLiteDispatch -n <ns> -p orders -g billing -b tidemq", "tidemq\\]? +error").note("there are no lite topics"),

            // Last, as it never ends.
            works("startMonitoring -n <ns>", "").note("until it is stopped"),
            works("consumerConnection -n <ns> -g __MONITOR_CONSUMER", "JAVA").oneMore());
    }
}
