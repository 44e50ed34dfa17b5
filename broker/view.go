package broker

import (
	"errors"

	"github.com/tidemq/tidemq/internal/remoting"
	"github.com/tidemq/tidemq/store"
)

// viewMessage serves VIEW_MESSAGE_BY_ID: the record at a physical offset.
func viewMessage(b *Broker, c *conn, req *remoting.Command, _ bool) error {
	offset, err := req.Fields.Int64("offset")
	if err != nil {
		return err
	}
	record, err := b.store.ReadAt(offset)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(remoting.SystemError, "can not find message by the offset, %d", offset)
	}
	if err != nil {
		return err
	}
	resp := req.Reply(remoting.Success, "")
	resp.Body = record
	c.reply(req, resp)
	return nil
}
