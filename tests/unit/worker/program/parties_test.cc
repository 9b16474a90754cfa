// A worker with private data, of one party or of several virtual ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/worker/training/fixtures.h"
#include "worker/base/manifest.h"
#include "worker/base/session.h"
#include "worker/program/model_learner.h"
#include "worker/program/party_keeper.h"
#include "worker/training/worker_state.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::RunSpec PrivateSpec() {
  v1::RunSpec spec = TinySpec();
  spec.mutable_data()->set_private_(true);
  return spec;
}

struct Answer {
  v1::WorkerMessage message;
  std::vector<float> update;
};

// What a worker said while it lived.
struct Life {
  v1::WorkerConfigured configured;
  std::string failed;
  std::vector<Answer> answers;
};

// The daemon's end: asks one thing after the other, each when the one before was answered.
class AskingDaemon : public Outbox {
 public:
  AskingDaemon(Inbox& inbox, const Slots& slots, std::vector<v1::DaemonMessage> script,
               v1::DaemonMessage given_up)
      : inbox_(inbox), slots_(slots), script_(std::move(script)), given_up_(std::move(given_up)) {}

  bool Send(const v1::WorkerMessage& message) override {
    if (message.has_configured()) life.configured = message.configured();
    if (message.has_failed()) life.failed = message.failed().what();
    if (message.has_configured()) return Ask();
    if (given_up_sent_ && next_ == 1 && message.progress().step() > 0) return Ask();
    if (!message.has_boundary() && !message.has_evaluated()) return true;
    life.answers.push_back({message, {slots_.update().begin(), slots_.update().end()}});
    return Ask();
  }

  Life life;

 private:
  bool Ask() {
    Event event;
    if (next_ < script_.size()) {
      const bool first =
          next_ == 1 && given_up_.has_train() && !std::exchange(given_up_sent_, true);
      event.message = first ? given_up_ : script_[next_++];
    } else {
      event.message.mutable_stop();
    }
    inbox_.Push(event);
    return true;
  }

  Inbox& inbox_;
  const Slots& slots_;
  const std::vector<v1::DaemonMessage> script_;
  // A TrainSteps that is asked for before the second message of the script, which comes as soon as
  // a step of it is done.
  const v1::DaemonMessage given_up_;
  bool given_up_sent_ = false;
  size_t next_ = 0;
};

class PartiesTest : public ::testing::Test {
 protected:
  PartiesTest() {
    *configure_.mutable_spec() = PrivateSpec();
    std::filesystem::create_directory(folder_ / "parties");
    Write("parties/a", SomeText(700));
    Write("parties/b", SomeText(1500).substr(300));
    Write("parties/.hidden", "");
  }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }

  static v1::DaemonMessage Train(uint64_t version, uint32_t steps, uint32_t party = 0,
                                 bool fresh = false, bool taken = true) {
    v1::DaemonMessage message;
    message.mutable_train()->set_version(version);
    message.mutable_train()->set_first_step((version - 1) * 4);
    message.mutable_train()->set_steps(steps);
    message.mutable_train()->set_party(party);
    message.mutable_train()->set_fresh(fresh);
    message.mutable_train()->set_taken(taken);
    return message;
  }

  static v1::DaemonMessage Evaluate(bool own, uint32_t party = 0) {
    v1::DaemonMessage message;
    message.mutable_evaluate()->set_version(1);
    message.mutable_evaluate()->set_shares(1);
    message.mutable_evaluate()->set_own(own);
    message.mutable_evaluate()->set_party(party);
    return message;
  }

  // One life of a worker, whose theta is always the same and whose common variate is 0.01
  // everywhere.
  Life Live(const std::string& data, const std::string& state, uint32_t parties,
            const std::vector<v1::DaemonMessage>& script) {
    const v1::ModelSpec& model = configure_.spec().model();
    const uint64_t elements = SharedPart(*MakeManifest(model), PersonalPatterns(model)).elements();
    const uint64_t slot = (elements * sizeof(float) + 4095) / 4096 * 4096;
    Write("memory", std::string(3 * slot, '\0'));
    v1::DaemonMessage map, configure;
    map.mutable_map_memory()->set_path(folder_ / "memory");
    map.mutable_map_memory()->set_elements(elements);
    map.mutable_map_memory()->set_update_offset(slot);
    map.mutable_map_memory()->set_control_offset(2 * slot);
    const std::unique_ptr<Slots> slots = *Slots::Map(map.map_memory(), elements);
    // They are read-only for a worker; here we are the daemon.
    float* const theta = const_cast<float*>(slots->theta().data());
    float* const common = const_cast<float*>(slots->control().data());
    for (uint64_t i = 0; i < elements; ++i) {
      theta[i] = 0.05f * (static_cast<float>(i % 17) - 8) / 8;
      common[i] = 0.01f;
    }
    *configure.mutable_configure() = configure_;
    configure.mutable_configure()->set_data_path(folder_ / data);
    configure.mutable_configure()->set_state_path(state.empty() ? "" : folder_ / state);
    configure.mutable_configure()->set_parties(parties);
    Inbox inbox;
    Event event;
    event.message = configure;
    inbox.Push(event);
    event.message = map;
    inbox.Push(event);
    AskingDaemon daemon(inbox, *slots, script, given_up_);
    WorkerEnv env;
    env.now = [this] { return now_ += absl::Milliseconds(10); };
    env.log = [this](const std::string& line) { log_ += line + "\n"; };
    ModelLearner learner(env, {});
    const absl::Status status = Session(inbox, daemon, learner, env).Run();
    EXPECT_EQ(status.ok(), daemon.life.failed.empty()) << status;
    return daemon.life;
  }

  const TemporaryFolder folder_;
  v1::Configure configure_;
  v1::DaemonMessage given_up_;
  absl::Time now_ = absl::UnixEpoch();
  std::string log_;
};

// Broken: a turn of a virtual party would not be what a worker of its own does, so ten thousand
// parties on one machine would be another experiment than ten thousand machines. Or what a party
// has learned would leak into the next one's turn.
TEST_F(PartiesTest, ATurnIsThatOfAWorkerOfItsOwn) {
  for (const std::string kind : {"adamw", "scaffold", "personal", "proximal"}) {
    v1::RunSpec spec = PrivateSpec();
    if (kind == "scaffold") spec.mutable_inner()->set_optimizer("sgd");
    if (kind == "scaffold") spec.mutable_inner()->set_control_variates(true);
    if (kind == "personal") spec.mutable_model()->add_local("transformer.ln_f.*");
    if (kind == "proximal") spec.mutable_inner()->set_proximal(0.5);
    *configure_.mutable_spec() = spec;
    const auto turns = [](uint32_t party) {
      return std::vector<v1::DaemonMessage>{Train(1, 3, party), Train(2, 2, party),
                                            Train(3, 2, party, false, false)};
    };
    std::vector<v1::DaemonMessage> both;
    for (size_t i = 0; i < 3; ++i) {
      both.push_back(turns(1)[i]);
      both.push_back(turns(2)[i]);
    }
    const Life shared = Live("parties", kind + "-both", 2, both);
    EXPECT_EQ(shared.configured.parties(), 2u);
    EXPECT_EQ(shared.configured.data_digest(), "");
    ASSERT_EQ(shared.answers.size(), 6u) << shared.failed;
    uint64_t samples = 0;
    for (const uint32_t party : {1, 2}) {
      const Life alone =
          Live(party == 1 ? "parties/a" : "parties/b", kind + std::to_string(party), 0, turns(0));
      samples += alone.configured.samples();
      ASSERT_EQ(alone.answers.size(), 3u) << alone.failed;
      for (size_t i = 0; i < 3; ++i) {
        const Answer& turn = shared.answers[2 * i + party - 1];
        EXPECT_EQ(turn.update, alone.answers[i].update) << kind << " " << party << " " << i;
        EXPECT_EQ(turn.message.boundary().party(), party);
        EXPECT_EQ(turn.message.boundary().first_loss(),
                  alone.answers[i].message.boundary().first_loss());
      }
    }
    EXPECT_EQ(shared.configured.samples(), samples);
    EXPECT_NE(shared.answers[0].update, shared.answers[1].update);
  }
}

// Broken: after a restart a party would read the beginning of its data again, or its moments and
// personal tensors would be cold.
TEST_F(PartiesTest, ARestartGoesOnBehindTheLastFinishedRound) {
  configure_.mutable_spec()->mutable_model()->add_local("transformer.ln_f.*");
  const std::vector<v1::DaemonMessage> rounds = {Train(1, 3), Train(2, 2)};
  const Life whole = Live("parties/a", "whole", 0, rounds);
  ASSERT_EQ(whole.answers.size(), 2u) << whole.failed;
  Live("parties/a", "parts", 0, {rounds[0]});
  const Life second = Live("parties/a", "parts", 0, {rounds[1]});
  ASSERT_EQ(second.answers.size(), 1u) << second.failed;
  EXPECT_EQ(second.answers[0].update, whole.answers[1].update);
  for (const v1::Tensor& tensor : second.configured.manifest().tensors()) {
    EXPECT_EQ(tensor.name().find("ln_f"), std::string::npos);
  }
  const auto kept = ReadPersonalTensors(folder_ / "parts", "tiny", 16);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_NE(*kept, std::vector<float>(16, 1.0f));  // what a norm's weights begin with
  EXPECT_FALSE(ReadPersonalTensors(folder_ / "parts", "another", 16).ok());
  EXPECT_FALSE(ReadPersonalTensors(folder_ / "parts", "tiny", 17).ok());
  EXPECT_THAT(log_, HasSubstr("state of 12 samples of the data taken from"));
  const Life cold = Live("parties/a", "", 0, {rounds[1]});
  EXPECT_NE(cold.answers[0].update, whole.answers[1].update);
}

// Broken: an update that others may have seen in a sum would be trained again bit for bit, and the
// difference of two sums would be the update of one party.
TEST_F(PartiesTest, WhatIsTrainedInsteadOfWhatWasShownIsAnother) {
  const auto again = [](uint32_t count) {
    v1::DaemonMessage message = Train(1, 3);
    message.mutable_train()->set_again(count);
    return message;
  };
  const Life life = Live("parties/a", "again", 0, {Train(1, 3), again(0), again(1), again(2)});
  ASSERT_EQ(life.answers.size(), 4u) << life.failed;
  EXPECT_EQ(life.answers[1].update, life.answers[0].update);
  EXPECT_NE(life.answers[2].update, life.answers[0].update);
  EXPECT_NE(life.answers[3].update, life.answers[2].update);
  EXPECT_NE(life.answers[3].update, life.answers[0].update);
  // Nor does a worker that was started meanwhile give the first one again.
  const Life later = Live("parties/a", "again", 0, {again(1)});
  ASSERT_EQ(later.answers.size(), 1u) << later.failed;
  EXPECT_EQ(later.answers[0].update, life.answers[2].update);
}

// Broken: a round of passes would have another number of steps than FedAvg's, leave samples out, or
// leave the run's schedule.
TEST_F(PartiesTest, ARoundOfPassesGoesThroughAllOfTheData) {
  configure_.mutable_spec()->mutable_inner()->set_epochs(2);
  const Life daemon = Live("parties/a", "", 0, {Train(1, 4), Train(2, 4)});
  ASSERT_EQ(daemon.answers.size(), 2u) << daemon.failed;
  const uint64_t samples = daemon.configured.samples();  // of 560 tokens
  EXPECT_EQ(samples, 34u);
  for (const Answer& answer : daemon.answers) {
    const v1::Boundary& boundary = answer.message.boundary();
    EXPECT_EQ(boundary.samples(), 2 * samples);
    EXPECT_EQ(boundary.steps(), 17u);  // 68 samples, four a step
    EXPECT_EQ(boundary.tokens(), 2 * samples * 16);
    EXPECT_GT(boundary.first_loss(), boundary.loss());
  }
}

// Broken: a party with three samples could not take part, or would be told of a data set that is
// too short.
TEST_F(PartiesTest, SmallPartiesTrain) {
  std::filesystem::create_directory(folder_ / "small");
  Write("small/1", SomeText(65));  // three sequences of 16
  Write("small/2", SomeText(9));   // less than one
  Write("small/3", SomeText(2));   // too little to hold anything out
  configure_.mutable_spec()->mutable_inner()->set_epochs(1);
  const Life daemon = Live("small", "small-state", 3,
                           {Train(1, 4, 1), Train(1, 4, 2), Train(1, 4, 3), Evaluate(true)});
  ASSERT_EQ(daemon.answers.size(), 4u) << daemon.failed;
  EXPECT_EQ(daemon.answers[0].message.boundary().steps(), 1u);
  EXPECT_EQ(daemon.answers[0].message.boundary().samples(), 2u);
  EXPECT_EQ(daemon.answers[1].message.boundary().samples(), 1u);
  EXPECT_EQ(daemon.answers[1].message.boundary().tokens(), 6u);
  EXPECT_GT(daemon.answers[1].message.boundary().loss(), 0);
  EXPECT_EQ(daemon.answers[2].message.boundary().tokens(), 1u);
  EXPECT_EQ(daemon.answers[3].message.evaluated().tokens(), 12u + 1u);
}

// Broken: parties of which nothing is kept would carry something from round to round, or always
// train on the same samples.
TEST_F(PartiesTest, AFreshPartyBeginsAnewElsewhere) {
  const Life daemon = Live(
      "parties", "fresh", 2,
      {Train(1, 2, 1, true), Train(1, 2, 2, true), Train(1, 2, 1, true), Train(2, 2, 1, true)});
  ASSERT_EQ(daemon.answers.size(), 4u) << daemon.failed;
  EXPECT_EQ(daemon.answers[0].update, daemon.answers[2].update);
  EXPECT_NE(daemon.answers[0].message.boundary().first_loss(),
            daemon.answers[3].message.boundary().first_loss());
  EXPECT_FALSE(std::filesystem::exists(PartyPath(folder_ / "fresh", 1)));
}

// Broken: a party's loss would be of the common set, or of another party's data; or shares of a set
// that nobody has would end the worker.
TEST_F(PartiesTest, EvaluatesWhatIsItsOwnAndWhatIsCommon) {
  Write("common", SomeText(2000).substr(1500));
  const std::vector<v1::DaemonMessage> asked = {Evaluate(true, 1), Evaluate(true, 2),
                                                Evaluate(true), Evaluate(false)};
  Life daemon = Live("parties", "", 2, asked);
  ASSERT_EQ(daemon.answers.size(), 4u) << daemon.failed;
  EXPECT_EQ(daemon.configured.validation_tokens(), 0u);
  EXPECT_EQ(daemon.configured.own_validation_tokens(), 140u + 240u);
  const auto evaluated = [&](size_t i) { return daemon.answers[i].message.evaluated(); };
  EXPECT_EQ(evaluated(0).tokens(), 128u);
  EXPECT_EQ(evaluated(1).tokens(), 224u);
  EXPECT_EQ(evaluated(1).party(), 2u);
  EXPECT_TRUE(evaluated(1).own());
  EXPECT_THAT(evaluated(2).own_losses(),
              ElementsAre(evaluated(0).own_losses(0), evaluated(1).own_losses(0)));
  EXPECT_EQ(evaluated(2).tokens(), 128u + 224u);
  EXPECT_EQ(evaluated(3).tokens(), 0u);
  configure_.set_validation_path(folder_ / "common");
  daemon = Live("parties", "", 2, asked);
  EXPECT_EQ(daemon.configured.validation_tokens(), 500u);
  EXPECT_EQ(evaluated(3).tokens(), 496u);
  EXPECT_FALSE(evaluated(3).own());
}

// Broken: the loss on the common set would be taken for one on new text, although parties have
// trained on parts of it.
TEST_F(PartiesTest, CommonTextThatAPartyTrainsOnIsCounted) {
  const std::string text = SomeText(2000);
  const auto said = [&](const std::string& data, uint32_t parties) {
    log_.clear();
    EXPECT_EQ(Live(data, "", parties, {Evaluate(false)}).failed, "");
    return log_;
  };
  configure_.set_validation_path(folder_ / "common");
  Write("common", text.substr(1500));
  EXPECT_THAT(said("parties", 2), Not(HasSubstr("common validation set")));
  // The first piece is in the first party's training part, the second one in the other's.
  Write("common", text.substr(0, 256) + text.substr(900, 256) + text.substr(1700, 256));
  const std::string both = said("parties", 2);
  const std::string note =
      "2 of 3 pieces of 256 tokens of the common validation set stand in this peer's own training "
      "text too; the validation loss is better for it\n";
  ASSERT_THAT(both, HasSubstr(note));
  EXPECT_EQ(both.find(note), both.rfind(note)) << "it is said once";
  EXPECT_THAT(said("parties/a", 0),
              HasSubstr("1 of 3 pieces of 256 tokens of the common validation set stands in"));
}

// Broken: who has too few parties, or asks for what cannot be, would see something else fail later.
TEST_F(PartiesTest, NamesWhatIsWrong) {
  EXPECT_THAT(Live("parties", "", 3, {}).failed,
              HasSubstr("holds 2 parties; this peer is to have 3 from 1 on, so there must be 3"));
  EXPECT_THAT(Live("parties", "", 2, {Train(1, 1, 3)}).failed, HasSubstr("party 3 is not here"));
  EXPECT_THAT(Live("parties", "", 2, {Train(1, 1)}).failed, HasSubstr("has virtual parties"));
  configure_.mutable_spec()->mutable_data()->set_tokenizer("chars");
  EXPECT_THAT(Live("parties", "", 2, {}).failed, HasSubstr("in its own way"));
  *configure_.mutable_spec() = PrivateSpec();
  configure_.mutable_spec()->mutable_model()->add_local("transformer.ln_f.*");
  EXPECT_THAT(Live("parties", "", 2, {Train(1, 1, 1, true)}).failed, HasSubstr("keep = true"));
  *configure_.mutable_spec() = TinySpec();
  EXPECT_THAT(Live("parties", "", 2, {}).failed, HasSubstr("private = true"));
}

// Broken: an update that no entry took would change a party's control variate, and the sum of all
// would no longer be the common one; or the one that waits would be lost with the process.
TEST_F(PartiesTest, AControlVariateWaitsUntilItsUpdateIsTaken) {
  v1::RunSpec spec = PrivateSpec();
  spec.mutable_inner()->set_optimizer("sgd");
  spec.mutable_inner()->set_control_variates(true);
  const auto data = TrainingData::FromText(SomeText(700), 0.2);
  const auto trainer = Trainer::Make(spec, **data);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const size_t elements = (*trainer)->manifest().elements();
  const std::vector<float> update(elements, 1.0f), common(elements, 0.25f);
  PartyKeeper keeper(**trainer, spec, folder_ / "control", absl::Now, {});
  ASSERT_TRUE(keeper.TakeUp(1, 1).ok());
  keeper.Finish(1, 8, update, common, 2.0);
  EXPECT_EQ(keeper.control()[0], 0.0f);
  ASSERT_TRUE(keeper.Save().ok());
  PartyKeeper next(**trainer, spec, folder_ / "control", absl::Now, {});
  ASSERT_TRUE(next.TakeUp(1, 2).ok());
  EXPECT_EQ(next.position(), 8u);
  next.Settle(true);
  EXPECT_EQ(next.control()[0], 0.25f);  // 0 - 0.25 + 1 / 2
  next.Finish(2, 8, update, common, 2.0);
  next.Settle(false);
  EXPECT_EQ(next.control()[0], 0.25f);
  next.Settle(true);  // nothing waits any more
  EXPECT_EQ(next.control()[0], 0.25f);
}

// Broken: a party whose round was given up would go on from steps that no entry will ever hold, and
// would not be what it is on a machine of its own.
TEST_F(PartiesTest, ARoundThatIsGivenUpLeavesNoTrace) {
  const std::vector<v1::DaemonMessage> plain = {Train(1, 2, 1), Train(2, 2, 1)};
  const Life whole = Live("parties", "plain", 2, plain);
  // The longer round never answers: the next one comes while it runs.
  given_up_ = Train(2, 1000000, 1);
  const Life other = Live("parties", "given-up", 2, plain);
  ASSERT_EQ(whole.answers.size(), 2u) << whole.failed;
  ASSERT_EQ(other.answers.size(), 2u) << other.failed;
  EXPECT_EQ(other.answers[1].update, whole.answers[1].update);
}

// Broken: a peer that died before its update was in an entry would train the round again from
// moments and on data behind it, and so would one whose update was refused.
TEST_F(PartiesTest, ATrainingThatIsDoneAgainIsTheSame) {
  for (const std::string kind : {"optimiser", "private", "personal", "virtual"}) {
    v1::RunSpec spec = kind == "optimiser" ? TinySpec() : PrivateSpec();
    if (kind == "personal") spec.mutable_model()->add_local("transformer.ln_f.*");
    *configure_.mutable_spec() = spec;
    const uint32_t parties = kind == "virtual" ? 2 : 0;
    const std::string data = parties == 0 ? "parties/a" : "parties";
    const auto train = [&](uint64_t version) { return Train(version, 3, parties == 0 ? 0 : 2); };
    const Life whole = Live(data, kind + "-whole", parties, {train(1), train(2), train(3)});
    ASSERT_EQ(whole.answers.size(), 3u) << kind << ": " << whole.failed;
    // In one life, and by one that follows.
    const Life first = Live(data, kind, parties, {train(1), train(1), train(2)});
    ASSERT_EQ(first.answers.size(), 3u) << kind << ": " << first.failed;
    log_.clear();
    const Life second = Live(data, kind, parties, {train(2), train(2), train(3)});
    ASSERT_EQ(second.answers.size(), 3u) << kind << ": " << second.failed;
    const std::vector<const Answer*> again = {&first.answers[0],  &first.answers[1],
                                              &first.answers[2],  &second.answers[0],
                                              &second.answers[1], &second.answers[2]};
    const std::vector<size_t> as = {0, 0, 1, 1, 1, 2};
    for (size_t i = 0; i < again.size(); ++i) {
      EXPECT_EQ(again[i]->update, whole.answers[as[i]].update) << kind << ", training " << i;
    }
    EXPECT_EQ(log_.find("may differ"), std::string::npos) << log_;
    // Of virtual parties the file of before goes once it is no longer needed.
    EXPECT_EQ(std::filesystem::exists(FormerPath(folder_ / kind)), parties == 0) << kind;
    if (parties == 0) continue;
    const std::string former = FormerPath(PartyPath(folder_ / kind, 2));
    EXPECT_TRUE(std::filesystem::exists(former));
    Live(data, kind, parties, {train(4), Train(5, 3, 1)});
    EXPECT_FALSE(std::filesystem::exists(former));
  }
}

// Broken: nobody would learn why a run that was stopped differs from one that was not.
TEST_F(PartiesTest, AStateOfAnotherVersionIsNamed) {
  *configure_.mutable_spec() = TinySpec();
  Live("parties/a", "named", 0, {Train(1, 3), Train(2, 3)});
  Live("parties/a", "named", 0, {Train(5, 3)});
  EXPECT_THAT(log_, HasSubstr("optimiser's state of 6 steps taken from"));
  EXPECT_THAT(log_, HasSubstr("it is of version 2, and the training is for version 5"));
  EXPECT_THAT(log_, HasSubstr("may differ from a run that was never stopped"));
}

// Broken: a worker with several devices would fail on the short batch at the end of a pass.
TEST_F(PartiesTest, ADeviceMayHaveNothingToDo) {
  const auto data = TrainingData::FromText(SomeText(700), 0.2);
  const auto loss = [&](const std::vector<std::string>& devices) {
    const auto trainer = Trainer::Make(PrivateSpec(), **data, devices);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    EXPECT_TRUE((*trainer)->Initialise().ok());
    double last = 0;
    for (uint64_t step = 0; step < 3; ++step) {
      last = (*trainer)->Step(step, std::vector<uint64_t>{step}).value_or(-1);
    }
    return last;
  };
  EXPECT_NEAR(loss({"cpu", "cpu"}), loss({"cpu"}), 1e-4);
}

}  // namespace
}  // namespace atolld
