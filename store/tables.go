package store

// Topic is one topic's configuration, as RocketMQ's TopicConfig.
type Topic struct {
	Name        string            `json:"name"`
	ReadQueues  int32             `json:"readQueues"`
	WriteQueues int32             `json:"writeQueues"`
	Perm        int32             `json:"perm"` // 4 read, 2 write, 1 inherit
	FilterType  string            `json:"filterType,omitempty"`
	SysFlag     int32             `json:"sysFlag,omitempty"`
	Order       bool              `json:"order,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"`
	// Created is the log address of the record that created the topic; set by
	// the store. A pending message older than this belonged to an earlier
	// topic of the same name and is not delivered into this one.
	Created int64 `json:"created"`
	// Changed is the WAL index of the last change; set by the store.
	Changed uint64 `json:"changed"`
}

// Group is one consumer group's configuration, as RocketMQ's
// SubscriptionGroupConfig.
type Group struct {
	Name                 string            `json:"name"`
	ConsumeEnable        bool              `json:"consumeEnable"`
	ConsumeFromMinEnable bool              `json:"consumeFromMinEnable"`
	BroadcastEnable      bool              `json:"broadcastEnable"`
	OrderlyEnable        bool              `json:"orderlyEnable"`
	RetryQueues          int32             `json:"retryQueues"`
	RetryMaxTimes        int32             `json:"retryMaxTimes"`
	BrokerID             int64             `json:"brokerId"`
	WhichBrokerWhenSlow  int64             `json:"whichBrokerWhenSlow"`
	NotifyChange         bool              `json:"notifyChange"`
	Attributes           map[string]string `json:"attributes,omitempty"`
	Changed              uint64            `json:"changed"`
}
