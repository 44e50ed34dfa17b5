package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/internal/message"
	"github.com/tidemq/tidemq/internal/remoting"
)

func offsetsCommand() *cli.Command {
	return &cli.Command{
		Name:  "offsets",
		Usage: "show or move a consumer group's position",
		Description: `An offset is the number of the next message that a group reads in a queue.

Examples:
   tidemq offsets show --group billing
   tidemq offsets reset --group billing --topic orders --to-time -1h --dry-run
   tidemq offsets reset --group billing --topic orders --to-earliest`,
		Action:      chooseCommand,
		Subcommands: []*cli.Command{offsetsShowCommand(), offsetsResetCommand()},
	}
}

func groupFlag() cli.Flag {
	return &cli.StringFlag{Name: "group", Aliases: []string{"g"}, Usage: "consumer `GROUP`"}
}

func topicFlag(usage string) cli.Flag {
	return &cli.StringFlag{Name: "topic", Aliases: []string{"t"}, Usage: usage}
}

// needGroup returns --group.
func needGroup(c *cli.Context) (string, error) {
	group, err := need(c, "group")
	if err == nil {
		if verr := message.ValidateGroup(group); verr != nil {
			err = usagef("%s--group: %w", commandPrefix(c), verr)
		}
	}
	return group, err
}

// needTopic returns --topic.
func needTopic(c *cli.Context) (string, error) {
	topic, err := need(c, "topic")
	if err == nil {
		if verr := message.ValidateTopic(topic); verr != nil {
			err = usagef("%s--topic: %w", commandPrefix(c), verr)
		}
	}
	return topic, err
}

func offsetsShowCommand() *cli.Command {
	return &cli.Command{
		Name:  "show",
		Usage: "show a group's offsets, lag and members",
		Description: `Lists, for each queue of the topics that the group subscribes to or has offsets
in: first and next offset of the queue, the group's committed offset, and the lag.

Examples:
   tidemq offsets show --group billing
   tidemq offsets show --group billing --topic orders --json`,
		Flags: []cli.Flag{addrFlag(), groupFlag(), topicFlag("only this `TOPIC`, subscribed or not"), jsonFlag()},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			group, err := needGroup(c)
			if err != nil {
				return err
			}
			fields := map[string]string{"group": group}
			if c.IsSet("topic") {
				if fields["topic"], err = needTopic(c); err != nil {
					return err
				}
			}
			var body remoting.OffsetsBody
			if err := call(c, remoting.ReqTideOffsets, fields, &body); err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, body)
			}
			return printOffsets(c.App.Writer, body)
		},
	}
}

func printOffsets(w io.Writer, body remoting.OffsetsBody) error {
	table := newTable(w)
	fmt.Fprint(table, "TOPIC\tQUEUE\tMIN\tMAX\tCOMMITTED\tLAG\t\n")
	var lag int64
	for _, t := range body.Topics {
		lag += t.Lag
		for _, q := range t.Queues {
			fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t%d\t\n", t.Topic, q.QueueID, q.Min, q.Max, orNone(q.Committed), q.Lag)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "group %s: lag %d, %d on-line\n", body.Group, lag, len(body.Members))
	for _, m := range body.Members {
		fmt.Fprintf(w, "   %s at %s, %s\n", m.ClientID, m.Addr, m.Language)
	}
	return nil
}

// orNone shows an offset that may not exist (-1).
func orNone(offset int64) string {
	if offset < 0 {
		return "none"
	}
	return strconv.FormatInt(offset, 10)
}

func offsetsResetCommand() *cli.Command {
	return &cli.Command{
		Name:  "reset",
		Usage: "move a group's offsets: hand it its past again, or skip",
		Description: `Moves the group to one place in every queue of the topic, or in one queue. Exactly
one of the --to-… flags says where. The new offsets are on disk when the command
ends. Members on-line are told and go on from there at once; commits of what they
read before do not undo it. An offset outside a queue becomes its nearest end.

--to-time is ` + timeFormats + `;
the group goes to the first message stored then or later.

Examples:
   tidemq offsets reset --group billing --topic orders --to-earliest --dry-run
   tidemq offsets reset --group billing --topic orders --to-time '2026-03-01 08:00:00'
   tidemq offsets reset --group billing --topic orders --queue 3 --to-offset 1000`,
		Flags: []cli.Flag{
			addrFlag(), groupFlag(), topicFlag("`TOPIC` to move in"),
			&cli.IntFlag{Name: "queue", Aliases: []string{"q"}, Value: -1, DefaultText: "all", Usage: "only this `QUEUE`"},
			&cli.StringFlag{Name: "to-time", Usage: "to the first message stored at `TIME` or later"},
			&cli.Int64Flag{Name: "to-offset", Usage: "to offset `N`"},
			&cli.BoolFlag{Name: "to-earliest", DisableDefaultText: true, Usage: "to the first message there is"},
			&cli.BoolFlag{Name: "to-latest", DisableDefaultText: true, Usage: "behind the last message"},
			&cli.BoolFlag{Name: "dry-run", DisableDefaultText: true, Usage: "say what would happen, change nothing"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			fields, err := resetFields(c)
			if err != nil {
				return err
			}
			var body remoting.ResetBody
			if err := call(c, remoting.ReqTideResetOffsets, fields, &body); err != nil {
				return err
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, body)
			}
			return printReset(c.App.Writer, body)
		},
	}
}

// resetFields reads the command line of a reset.
func resetFields(c *cli.Context) (map[string]string, error) {
	if err := noArguments(c); err != nil {
		return nil, err
	}
	group, err := needGroup(c)
	if err != nil {
		return nil, err
	}
	topic, err := needTopic(c)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{"group": group, "topic": topic, "dryRun": strconv.FormatBool(c.Bool("dry-run"))}
	if c.IsSet("queue") {
		if c.Int("queue") < 0 {
			return nil, usagef("offsets reset: --queue is %d: 0 or more is allowed", c.Int("queue"))
		}
		fields["queueId"] = strconv.Itoa(c.Int("queue"))
	}
	targets := 0
	if c.IsSet("to-time") {
		t, err := parseTime(c.String("to-time"), time.Now())
		if err != nil {
			return nil, usagef("offsets reset: --to-time: %w", err)
		}
		fields["to"], fields["value"] = remoting.ResetToTime, strconv.FormatInt(t.UnixMilli(), 10)
		targets++
	}
	if c.IsSet("to-offset") {
		if c.Int64("to-offset") < 0 {
			return nil, usagef("offsets reset: --to-offset is %d: 0 or more is allowed", c.Int64("to-offset"))
		}
		fields["to"], fields["value"] = remoting.ResetToOffset, strconv.FormatInt(c.Int64("to-offset"), 10)
		targets++
	}
	if c.Bool("to-earliest") {
		fields["to"] = remoting.ResetToEarliest
		targets++
	}
	if c.Bool("to-latest") {
		fields["to"] = remoting.ResetToLatest
		targets++
	}
	if targets != 1 {
		return nil, usagef("offsets reset: %d of --to-time, --to-offset, --to-earliest and --to-latest are given: exactly one is expected", targets)
	}
	return fields, nil
}

func printReset(w io.Writer, body remoting.ResetBody) error {
	table := newTable(w)
	fmt.Fprint(table, "QUEUE\tMIN\tMAX\tFROM\tTO\t\n")
	for _, q := range body.Queues {
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t%d\t\n", q.QueueID, q.Min, q.Max, orNone(q.From), q.To)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if body.DryRun {
		_, err := fmt.Fprintf(w, "dry run: nothing was changed for group %s in topic %s\n", body.Group, body.Topic)
		return err
	}
	_, err := fmt.Fprintf(w, "group %s moved in topic %s; members on-line told: %d\n", body.Group, body.Topic, body.Told)
	return err
}
