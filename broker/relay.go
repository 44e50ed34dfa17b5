package broker

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// relayTimeout is how long a client may take to answer what an administrator
// asks it by way of the broker, as RocketMQ `Broker2Client.callClient`.
const relayTimeout = 10 * time.Second

// asks are the broker's requests to one client that wait for an answer.
type asks struct {
	mu      sync.Mutex
	ended   bool
	waiting map[int32]chan *remoting.Command
}

// ask sends a request to the client and waits for its answer.
func (c *conn) ask(cmd *remoting.Command) (*remoting.Command, error) {
	cmd.Opaque = c.opaque.Add(1)
	answer := make(chan *remoting.Command, 1)
	if !c.asks.add(cmd.Opaque, answer) {
		return nil, errConnEnded
	}
	defer c.asks.remove(cmd.Opaque)
	c.write(cmd)
	timer := time.NewTimer(relayTimeout)
	defer timer.Stop()
	select {
	case resp, ok := <-answer:
		if !ok {
			return nil, errConnEnded
		}
		return resp, nil
	case <-timer.C:
		return nil, refuse(remoting.ConsumeMsgTimeout, "the client did not answer within %v", relayTimeout)
	case <-c.b.stop:
		return nil, errClosing
	}
}

var errConnEnded = errors.New("the client's connection ended")

func (a *asks) add(opaque int32, answer chan *remoting.Command) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	if a.waiting == nil {
		a.waiting = make(map[int32]chan *remoting.Command)
	}
	a.waiting[opaque] = answer
	return true
}

func (a *asks) remove(opaque int32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.waiting, opaque)
}

// answered hands a response to who waits for it and reports whether somebody
// did.
func (a *asks) answered(resp *remoting.Command) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := a.waiting[resp.Opaque]
	if answer == nil {
		return false
	}
	delete(a.waiting, resp.Opaque)
	answer <- resp
	return true
}

// end tells everybody who waits that no answer will come.
func (a *asks) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for opaque, answer := range a.waiting {
		close(answer)
		delete(a.waiting, opaque)
	}
}

// runningInfo serves GET_CONSUMER_RUNNING_INFO: the client is asked.
func runningInfo(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	return b.relay(c, req, req.Fields, nil)
}

// consumeDirectly serves CONSUME_MESSAGE_DIRECTLY: the client is handed the
// message with that offset id.
func consumeDirectly(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	id, err := req.Fields.Require("msgId")
	if err != nil {
		return err
	}
	_, offset, err := message.ParseOffsetID(id)
	if err != nil {
		return refuse(remoting.InvalidParameter, "msgId: %v", err)
	}
	record, err := b.store.ReadAt(offset)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(remoting.SystemError, "can not find message by the offset, %d", offset)
	}
	if err != nil {
		return err
	}
	fields := append(remoting.Fields{}, req.Fields...)
	fields.Set("brokerName", b.opts.BrokerName)
	return b.relay(c, req, fields, record)
}

// relay asks the client that a request names and answers with what it says.
func (b *Broker) relay(c *conn, req *remoting.Command, fields remoting.Fields, body []byte) error {
	group, err := fields.Require("consumerGroup")
	if err != nil {
		return err
	}
	id, err := fields.Require("clientId")
	if err != nil {
		return err
	}
	view, _ := b.registry.consumerGroup(group)
	var client *clientInfo
	for _, info := range view.clients {
		if info.id == id {
			client = info
		}
	}
	if client == nil {
		return refuse(remoting.SystemError, "The Consumer <%s> <%s> not online", group, id)
	}
	ask := remoting.NewRequest(req.Code, fields...)
	ask.Body = body
	answer, err := client.conn.ask(ask)
	if err != nil {
		return fmt.Errorf("invoke consumer <%s> <%s>: %w", group, id, err)
	}
	resp := req.Reply(answer.Code, answer.Remark)
	resp.Fields, resp.Body = answer.Fields, answer.Body
	c.reply(req, resp)
	return nil
}
