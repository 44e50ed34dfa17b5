package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tidemq/tidemq/internal/remoting"
)

func levelsCommand() *cli.Command {
	return &cli.Command{
		Name:  "levels",
		Usage: "show what is pending at each delay level",
		Description: `One line per delay level: its length, its queue in SCHEDULE_TOPIC_XXXX, how many
messages are pending, when the next one is due, the offset of the next one to
deliver, and how late that is. A level without a number left the level table and
drains on.

With --json, times are in µs since 1970 on the broker's clock (nowUs).

Examples:
   tidemq levels
   tidemq levels --pending
   tidemq levels --json | jq '[.levels[].pending] | add'`,
		Flags: []cli.Flag{
			addrFlag(),
			&cli.BoolFlag{Name: "pending", DisableDefaultText: true, Usage: "leave out levels with nothing pending"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			var body remoting.LevelsBody
			if err := call(c, remoting.ReqTideLevels, nil, &body); err != nil {
				return err
			}
			if c.Bool("pending") {
				shown := []remoting.LevelState{}
				for _, l := range body.Levels {
					if l.Pending > 0 {
						shown = append(shown, l)
					}
				}
				body.Levels = shown
			}
			if c.Bool("json") {
				return printJSON(c.App.Writer, body)
			}
			return printLevels(c.App.Writer, body)
		},
	}
}

func printLevels(w io.Writer, body remoting.LevelsBody) error {
	table := newTable(w)
	fmt.Fprint(table, "LEVEL\tDELAY\tQUEUE\tPENDING\tNEXT DUE\tOFFSET\tLATE BY\t\n")
	var total int64
	for _, l := range body.Levels {
		total += l.Pending
		level, queue, next, late := "-", "-", "-", "-"
		if l.Level > 0 {
			level, queue = strconv.Itoa(l.Level), strconv.Itoa(int(l.QueueID))
		}
		if l.Pending > 0 {
			due := time.UnixMicro(l.NextDueUs)
			next = due.Format(timeLayout)
			if in := due.Sub(time.UnixMicro(body.NowUs)); in > 0 {
				next += " (in " + shortDuration(in) + ")"
			}
			if l.LateByUs > 0 {
				late = shortDuration(time.Duration(l.LateByUs) * time.Microsecond)
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%d\t%s\t\n", level, l.Delay, queue, l.Pending, next, l.Offset, late)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d pending\n", total)
	return err
}
