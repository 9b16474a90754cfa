#include "daemon/cli/live_view.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_join.h"
#include "compression/base/names.h"
#include "daemon/program/format.h"
#include "tests/unit/daemon/figures/run_statuses.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

RunHistory RunOf(const v1::RunStatus& status) {
  RunHistory history;
  history.Take(status, 1000 + status.elapsed_seconds());
  return history;
}

v1::RunStatus Training() {
  v1::RunStatus status = StatusAt(1, 5, 50);
  AddRound(&status, 5, 50, 2.25);
  AddEvaluation(&status, 0, 5.5);
  AddEvaluation(&status, 5, 2.5);
  v1::PeerProgress* progress = AddPeer(&status, "peer-1", 5000, 45, 5)->mutable_progress();
  progress->set_step(12);
  progress->set_steps(25);
  progress->set_tokens_per_second(15300);
  progress->set_loss(2.21);
  AddPeer(&status, "peer-2", 5000, 45, 5);
  return status;
}

TEST(LiveViewTest, HasARowForEachPeerAndTheRound) {
  // Broken: the live view would not say what each peer does or how far the run is.
  const std::vector<std::string> lines =
      RenderLiveView(RunOf(Training()), {}, 52, 120, Charset::kUnicode);
  const std::string all = absl::StrJoin(lines, "\n");
  EXPECT_THAT(all, HasSubstr("round 5 of 10"));
  EXPECT_THAT(all, HasSubstr("████████████░░░░░░░░░░░░"));
  EXPECT_THAT(all, HasSubstr("about 50 s left"));
  EXPECT_THAT(all, HasSubstr("validation loss 5.500 -> 2.500"));
  EXPECT_THAT(all, HasSubstr("1.0 kB sent a peer a round"));
  EXPECT_THAT(all, HasSubstr("12/25"));
  EXPECT_THAT(all, HasSubstr("15.3k"));
  EXPECT_THAT(all, HasSubstr("peer-2"));
}

TEST(LiveViewTest, TellsTheNoiseScaleOnceItIsKnown) {
  // Broken: who watches would not see that more peers no more help, or see a figure of nothing.
  v1::RunStatus status = Training();
  const auto view = [&] {
    return absl::StrJoin(RenderLiveView(RunOf(status), {}, 52, 120, Charset::kUnicode), "\n");
  };

  EXPECT_THAT(view(), Not(HasSubstr("noise")));
  status.mutable_noise()->set_tokens(21000);
  status.mutable_noise()->set_round_tokens(57600);
  status.mutable_rounds(0)->set_noise_scale(20900);
  EXPECT_THAT(view(), HasSubstr("\nnoise scale 21.0k tokens; peers make 57.6k: more peers help "
                                "less and less\n"));
  EXPECT_THAT(PlainLines().Tell(RunOf(status), status),
              ::testing::Contains(HasSubstr("exchanged -, noise scale 21,000 tokens")));
}

TEST(LiveViewTest, TellsHowWellWorkersAreUsed) {
  // Broken: who watches would take a run that waits for its lines for one that trains.
  v1::RunStatus status = Training();
  const auto view = [&] {
    return absl::StrJoin(RenderLiveView(RunOf(status), {}, 52, 120, Charset::kUnicode), "\n");
  };
  EXPECT_THAT(view(), Not(HasSubstr("utilisation")));
  v1::Utilisation* const used = status.mutable_rounds(0)->mutable_utilisation();
  used->set_train_seconds(9);
  used->set_waited_seconds(1);
  status.mutable_peers(1)->mutable_utilisation()->set_train_seconds(7);
  status.mutable_peers(1)->mutable_utilisation()->set_waited_seconds(3);
  EXPECT_THAT(view(), HasSubstr("   utilisation 90.0 %"));
  EXPECT_THAT(view(), HasSubstr(" 70.0 % "));
  EXPECT_THAT(PlainLines().Tell(RunOf(status), status),
              ::testing::Contains(HasSubstr("exchanged -, utilised 90.0 %")));
}

TEST(LiveViewTest, TellsWhatIsSpentOfPrivacy) {
  // Broken: who watches a run with a budget would not see it end.
  v1::RunStatus status = Training();
  v1::PrivacySpec* const privacy = status.mutable_spec()->mutable_privacy();
  privacy->set_clip_bits(0x3f800000);
  privacy->set_delta(1e-5);
  privacy->set_epsilon(3);
  status.mutable_rounds(status.rounds_size() - 1)->set_epsilon(1.23456);
  EXPECT_THAT(absl::StrJoin(RenderLiveView(RunOf(status), {}, 52, 120, Charset::kUnicode), "\n"),
              HasSubstr("\nprivacy: epsilon 1.235 at delta 1e-05, of 3\n"));
  EXPECT_THAT(PlainLines().Tell(RunOf(status), status),
              ::testing::Contains(HasSubstr(", epsilon 1.235")));
}

TEST(LiveViewTest, FitsTheTerminal) {
  // Broken: lines would wrap, and redrawing in place would smear the screen.
  for (const size_t width : {10u, 40u, 79u, 200u}) {
    for (const std::string& line :
         RenderLiveView(RunOf(Training()), {}, 52, width, Charset::kUnicode)) {
      EXPECT_LE(TextWidth(line), width);
    }
  }
}

TEST(LiveViewTest, OfAsciiIsAllAscii) {
  // Broken: a C locale's terminal would show rubbish, also at the end of a line that was cut.
  for (const size_t width : {20u, 40u, 120u}) {
    for (const std::string& line :
         RenderLiveView(RunOf(Training()), {}, 52, width, Charset::kAscii)) {
      EXPECT_LE(TextWidth(line), width);
      for (const char c : line) EXPECT_EQ(c & 0x80, 0) << line;
    }
  }
  EXPECT_THAT(RenderLiveView(RunOf(Training()), {}, 52, 120, Charset::kAscii).front(),
              HasSubstr("############............"));
}

// Broken: what a coordinator or a worker says moves the cursor of whoever looks on.
TEST(LiveViewTest, NothingThatItQuotesCommandsATerminal) {
  v1::RunStatus status = Training();
  status.set_reason("peer \x1b[2J asks\nround 9 of 9  sealed");
  status.mutable_peers(0)->mutable_progress()->set_phase(
      "\xc2\x9b"
      "31m\xe2\x80\xae"
      "eye");
  const std::string view = absl::StrJoin(
      RenderLiveView(RunOf(status), {{"peer-2", "killed\x07"}}, 50, 200, Charset::kUnicode), "");
  EXPECT_TRUE(IsPrintable(view)) << Printable(view);
  EXPECT_THAT(view, HasSubstr("waiting: peer \\x1b[2J asks\\nround 9"));
  EXPECT_THAT(view, HasSubstr("\\u009b31m\\u202eeye"));
  // The screen itself as well, whoever made the lines.
  FILE* const out = std::tmpfile();
  {
    LiveScreen screen(out);
    screen.Draw({"one \x1b[9A two"});
    screen.PrintAbove("three\x1b]0;x\x07");
  }
  std::string written(static_cast<size_t>(std::ftell(out)), '\0');
  std::rewind(out);
  EXPECT_EQ(written.size(), std::fread(written.data(), 1, written.size(), out));
  std::fclose(out);
  EXPECT_THAT(written, HasSubstr("one \\x1b[9A two"));
  EXPECT_THAT(written, HasSubstr("three\\x1b]0;x\\x07\n"));
  EXPECT_THAT(written, Not(HasSubstr("\x1b[9A")));
}

// Broken: who supervises processes stands still because nobody reads what it says of them.
TEST(SaidLinesTest, LeavesOutAndCountsWhatNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  FILE* const out = fdopen(ends[1], "w");
  SaidLines lines(out);
  const std::string long_line(1000, 'x');
  for (int i = 0; i < 100; ++i) lines.Say(long_line);
  EXPECT_FALSE(TakesOutput(out));
  char bytes[65536];
  ASSERT_GT(read(ends[0], bytes, sizeof bytes), 0);
  lines.Say("back");
  const ssize_t got = read(ends[0], bytes, sizeof bytes);
  ASSERT_GT(got, 0);
  EXPECT_THAT(
      std::string(bytes, static_cast<size_t>(got)),
      ::testing::MatchesRegex("\\(9[0-9] lines were left out here: nobody read them\\)\nback\n"));
  fclose(out);
  close(ends[0]);
}

TEST(LiveViewTest, SaysWhatBecameOfADeadProcess) {
  // Broken: a killed peer would look as if it still trained.
  const std::string all = absl::StrJoin(
      RenderLiveView(RunOf(Training()),
                     {{"peer-1", "was killed by signal 9"}, {"coordinator", "exited with 1"}}, 52,
                     120, Charset::kUnicode),
      "\n");
  EXPECT_THAT(all, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(all, HasSubstr("coordinator: exited with 1"));
  EXPECT_THAT(all, Not(HasSubstr("12/25")));
}

TEST(LiveViewTest, RendersBeforeAnythingIsKnown) {
  // Broken: the first second of a run, or a run that waits, would show nothing or end the program.
  EXPECT_THAT(RenderLiveView(RunHistory(), {}, 0, 80, Charset::kUnicode).front(),
              HasSubstr("starting"));
  v1::RunStatus waiting = StatusAt(1, 0, 0);
  waiting.set_phase("waiting");
  waiting.set_reason("2 of 3 peers are here");
  EXPECT_THAT(absl::StrJoin(RenderLiveView(RunOf(waiting), {}, 0, 80, Charset::kUnicode), "\n"),
              HasSubstr("waiting: 2 of 3 peers are here"));
  // Broken: a peer that has told nothing would seem to have sent nothing.
  waiting.add_peers()->mutable_member()->set_peer("peer-1");
  EXPECT_THAT(absl::StrJoin(RenderLiveView(RunOf(waiting), {}, 0, 80, Charset::kUnicode), "\n"),
              Not(HasSubstr("0 B")));
}

TEST(PlainLinesTest, TellsEachThingOnce) {
  // Broken: a log of a piped run would miss rounds, or repeat them after the coordinator's restart.
  PlainLines plain;
  RunHistory history;
  v1::RunStatus first = StatusAt(1, 2, 20);
  AddEvaluation(&first, 0, 5.5);
  AddRound(&first, 1, 10, 3.0);
  AddRound(&first, 2, 20, 2.5);
  first.add_events("peer-1 joined");
  first.add_events("round 1: committed by peer-1, peer-2");
  first.add_events("version 0: validation loss 5.5000 nats a token");
  history.Take(first, 1020);
  EXPECT_THAT(plain.Tell(history, first),
              ElementsAre("peer-1 joined",
                          "version 0: validation loss 5.5000 nats a byte over 4,096 tokens",
                          HasSubstr("round 1 of 10: training loss 3.0000"),
                          HasSubstr("round 2 of 10: training loss 2.5000")));

  v1::RunStatus again = StatusAt(2, 2, 1);
  AddRound(&again, 1, 0, 3.0);
  AddRound(&again, 2, 0, 2.5);
  AddEvaluation(&again, 0, 5.5);
  history.Take(again, 1030);
  EXPECT_THAT(plain.Tell(history, again), IsEmpty());

  v1::RunStatus waiting = StatusAt(2, 2, 2);
  waiting.set_reason("no quorum");
  history.Take(waiting, 1031);
  EXPECT_THAT(plain.Tell(history, waiting), ElementsAre("waiting: no quorum"));
  EXPECT_THAT(plain.Tell(history, waiting), IsEmpty());
}

TEST(PlainLinesTest, OneContributorIsOne) {
  // Broken: a run of one peer would tell of "1 contributors".
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 1, 10);
  AddRound(&status, 1, 10, 3.0);
  status.mutable_rounds(0)->set_contributors(1);
  status.mutable_rounds(0)->set_tokens(1);
  history.Take(status, 10);
  EXPECT_THAT(PlainLines().Tell(history, status).back(), HasSubstr(" 1 contributor, 1 token, "));
}

TEST(PlainLinesTest, WhatIsNotKnownOfAnAdoptedRoundIsADash) {
  // Broken: a round of which only the header is known would show the best loss of all.
  RunHistory history;
  v1::RunStatus status = StatusAt(1, 1, 10);
  AddRound(&status, 1, 10, 0);
  history.Take(status, 10);
  EXPECT_EQ(PlainLines().Tell(history, status).back(),
            "round 1 of 10: training loss -, 2 contributors, 1,200 tokens, trained -, exchanged -");
}

}  // namespace
}  // namespace atolld
