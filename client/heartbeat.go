package client

import (
	"context"
	"encoding/json"
	"time"

	"github.com/tidemq/tidemq/internal/remoting"
)

// The body of a heartbeat, as RocketMQ HeartbeatData.
type heartbeatData struct {
	ClientID  string         `json:"clientID"`
	Producers []producerData `json:"producerDataSet"`
	Consumers []consumerData `json:"consumerDataSet"`
}

type producerData struct {
	Group string `json:"groupName"`
}

type consumerData struct {
	Group         string             `json:"groupName"`
	ConsumeType   string             `json:"consumeType"`
	MessageModel  string             `json:"messageModel"`
	FromWhere     string             `json:"consumeFromWhere"`
	Subscriptions []subscriptionData `json:"subscriptionDataSet"`
	UnitMode      bool               `json:"unitMode"`
}

type subscriptionData struct {
	ClassFilterMode bool     `json:"classFilterMode"`
	Topic           string   `json:"topic"`
	SubString       string   `json:"subString"`
	Tags            []string `json:"tagsSet"`
	Codes           []int32  `json:"codeSet"`
	SubVersion      int64    `json:"subVersion"`
	ExpressionType  string   `json:"expressionType"`
}

// announce returns the connection to a broker that has been told about every
// member of this client. A broker that lost the connection forgot them, so the
// first request of a group over a new one comes after a heartbeat.
func (c *Client) announce(ctx context.Context, addr string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.requestTimeout)
	defer cancel()
	cn, err := c.connect(ctx, addr)
	if err != nil || cn.heard.Load() == c.version.Load() {
		return cn, err
	}
	return cn, c.beat(ctx, cn, false)
}

// beat sends a heartbeat over cn. Without always it does so only if the broker
// has not heard of the latest change of members.
func (c *Client) beat(ctx context.Context, cn *conn, always bool) error {
	select {
	case cn.telling <- struct{}{}:
		defer func() { <-cn.telling }()
	case <-ctx.Done():
		return contextError(ctx, "heartbeat to "+cn.addr)
	}
	c.mu.Lock()
	version := c.version.Load()
	data := heartbeatData{ClientID: c.cfg.clientID, Producers: []producerData{}, Consumers: []consumerData{}}
	for group := range c.producers {
		data.Producers = append(data.Producers, producerData{Group: group})
	}
	members := make([]groupMember, 0, len(c.consumers))
	for _, m := range c.consumers {
		members = append(members, m)
	}
	c.mu.Unlock()
	if !always && cn.heard.Load() == version {
		return nil
	}
	for _, m := range members {
		data.Consumers = append(data.Consumers, m.heartbeat())
	}
	if len(data.Producers)+len(data.Consumers) == 0 {
		cn.heard.Store(version)
		return nil
	}
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	first := cn.heard.Load() == 0
	req := remoting.NewRequest(remoting.ReqHeartBeat)
	req.Body = body
	k, err := cn.start(ctx, req)
	if err != nil {
		return err
	}
	answer, err := k.wait(ctx)
	if err != nil {
		return err
	}
	if err := brokerError(cn.addr, req.Code, answer); err != nil {
		return err
	}
	cn.heard.Store(version)
	if first {
		c.mu.Lock()
		if c.told[cn.addr] {
			c.rejoined = time.Now()
		}
		c.told[cn.addr] = true
		c.mu.Unlock()
		// The broker may have handed our queues to others, or to nobody.
		for _, m := range members {
			m.membersChanged()
		}
	}
	return nil
}

// heartbeatAll tells every broker in use that we are alive. A broker that does
// not answer loses its connection: it may be half open, and whatever waits on
// it shall try anew.
func (c *Client) heartbeatAll(ctx context.Context) {
	_ = c.eachBroker(func(cn *conn) error {
		if !c.routes.isBroker(cn.addr) {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, c.cfg.requestTimeout)
		defer cancel()
		err := c.beat(ctx, cn, true)
		if err == nil || c.ctx.Err() != nil {
			return nil
		}
		c.cfg.log.Warn("heartbeat failed", "addr", cn.addr, "err", err)
		if ctx.Err() != nil {
			cn.end(connectionError(cn.addr, err))
		}
		return nil
	})
}

// serve works on a request that a broker makes.
func (c *Client) serve(cn *conn, req *remoting.Command) {
	var answer *remoting.Command
	switch req.Code {
	case remoting.ReqNotifyConsumerIDsChanged:
		if m := c.consumer(req.Fields.Value("consumerGroup")); m != nil {
			m.membersChanged()
		}
		answer = req.Reply(remoting.Success, "")
	case remoting.ReqResetConsumerClientOffset:
		answer = c.serveReset(req)
	case remoting.ReqGetConsumerStatusFromClient:
		answer = c.serveStatus(req)
	case remoting.ReqGetConsumerRunningInfo:
		answer = c.serveRunningInfo(req)
	case remoting.ReqConsumeMessageDirectly:
		answer = c.serveConsumeDirectly(req)
	default:
		answer = req.Reply(remoting.RequestCodeNotSupported, "client does not support "+remoting.RequestName(req.Code))
	}
	cn.reply(req, answer)
}
