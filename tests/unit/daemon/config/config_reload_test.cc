// Would break: `systemctl reload` does nothing, takes half of a file that is wrong, or leaves an
// operator in the belief that something has changed that has not.
#include "daemon/config/config_reload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/env/posix_executor.h"
#include "tests/unit/daemon/config/config_file.h"

namespace atolld {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LinesOfReload final : public Log {
 public:
  void Write(Level, absl::string_view line) override { lines.emplace_back(line); }
  std::vector<std::string> lines;
};

class ConfigReloadTest : public ::testing::Test {
 protected:
  ConfigReloadTest() {
    path_ = file_.Write("x.toml", "[log]\nlevel = \"info\"\n[machine]\nup_cap = \"16Mbit\"\n");
    reload_.emplace(executor_, log_, path_, ConfigUse::kAny, *LoadConfig(path_, ConfigUse::kAny));
    reload_->On("[log] level", [this](const Config& config) {
      taken_.push_back(absl::StrCat("level ", config.log.level));
      return absl::OkStatus();
    });
  }
  // The new lines of the log.
  std::vector<std::string> ReloadOf(const std::string& text) {
    file_.Write("x.toml", text);
    log_.lines.clear();
    reload_->Reload();
    EXPECT_TRUE(executor_.RunUntil([this] { return !log_.lines.empty(); }, absl::Seconds(30)));
    return log_.lines;
  }

  ConfigFile file_;
  std::string path_;
  PosixExecutor executor_{{1, 0}};
  LinesOfReload log_;
  std::vector<std::string> taken_;
  std::optional<ConfigReload> reload_;
};

TEST_F(ConfigReloadTest, TakesWhatSomebodyTakesAndNamesTheRest) {
  EXPECT_THAT(ReloadOf("[log]\nlevel = \"debug\"\n[machine]\nup_cap = \"24Mbit\"\n"
                       "[peer]\nregion = \"north\"\n"),
              ElementsAre(HasSubstr("x.toml was read again: [log] level is \"debug\" now"),
                          HasSubstr("x.toml was read again: [peer] region, [machine] up_cap have "
                                    "changed, which takes effect at the next start")));
  EXPECT_THAT(taken_, ElementsAre("level debug"));
  // What was taken counts as running from now on; what was not is still to come.
  EXPECT_THAT(ReloadOf("[log]\nlevel = \"debug\"\n[machine]\nup_cap = \"24Mbit\"\n"),
              ElementsAre(HasSubstr("[machine] up_cap has changed, which takes effect")));
  EXPECT_THAT(ReloadOf("[log]\nlevel = \"debug\"\n[machine]\nup_cap = \"16Mbit\"\n"),
              ElementsAre(HasSubstr("nothing has changed")));
  EXPECT_THAT(taken_, ElementsAre("level debug"));
}

TEST_F(ConfigReloadTest, AFileThatIsNotValidChangesNothingAndIsToldWhy) {
  EXPECT_THAT(ReloadOf("[log]\nlevel = \"debug\"\n[machine]\nup_kap = \"24Mbit\"\n"),
              ElementsAre(::testing::AllOf(HasSubstr("nothing has changed, since it is not valid"),
                                           HasSubstr("x.toml:4: "), HasSubstr("up_cap"))));
  EXPECT_THAT(taken_, IsEmpty());
  std::filesystem::remove(path_);
  log_.lines.clear();
  reload_->Reload();
  EXPECT_TRUE(executor_.RunUntil([this] { return !log_.lines.empty(); }, absl::Seconds(30)));
  EXPECT_THAT(log_.lines, ElementsAre(HasSubstr("nothing has changed, since it is not valid")));
  EXPECT_THAT(taken_, IsEmpty());
}

TEST_F(ConfigReloadTest, ASectionIsTakenWholeAndARefusalLeavesTheOldOne) {
  absl::Status answer = absl::UnavailableError("there is no line");
  reload_->On("[machine]", [&](const Config& config) {
    taken_.push_back(absl::StrCat("cap ", config.machine.up_cap));
    return answer;
  });
  const std::string text = "[log]\nlevel = \"info\"\n[machine]\nup_cap = \"24Mbit\"\n";
  EXPECT_THAT(ReloadOf(text),
              ElementsAre(HasSubstr("[machine] stays as it was: there is no line")));
  answer = absl::OkStatus();
  EXPECT_THAT(ReloadOf(text), ElementsAre(HasSubstr("[machine] up_cap is ")));
  EXPECT_THAT(taken_, ElementsAre("cap 3000000", "cap 3000000"));
}

TEST_F(ConfigReloadTest, FilesBesideTheConfigAreReadAgainEachTime) {
  int read = 0;
  reload_->On(
      "[http]",
      [&read](const Config&) {
        ++read;
        return absl::OkStatus();
      },
      [](const Config& config) { return !config.http.token_file.empty(); });
  const std::string without = "[machine]\nup_cap = \"16Mbit\"\n";
  EXPECT_THAT(ReloadOf(without), ElementsAre(HasSubstr("nothing has changed")));
  EXPECT_EQ(read, 0);
  const std::string with = absl::StrCat(without, "[http]\ntoken_file = \"/etc/atoll/token\"\n");
  EXPECT_THAT(ReloadOf(with), ElementsAre(HasSubstr("[http] token_file is ")));
  EXPECT_EQ(read, 1);
  EXPECT_THAT(ReloadOf(with), ElementsAre(HasSubstr("the files of [http] were, too")));
  EXPECT_EQ(read, 2);
}

TEST_F(ConfigReloadTest, AKeyThatNobodyCanTakeWaitsThoughItsSectionIsTaken) {
  reload_->On("[http]", [this](const Config&) {
    taken_.emplace_back("http");
    return absl::OkStatus();
  });
  reload_->On("[http] listen", nullptr);
  EXPECT_THAT(ReloadOf("[machine]\nup_cap = \"16Mbit\"\n[http]\nlisten = \"127.0.0.1:7081\"\n"),
              ElementsAre(HasSubstr("[http] listen has changed, which takes effect at the next")));
  EXPECT_THAT(taken_, IsEmpty());
}

// A joined peer's config lies in its folder, and a link in /etc leads there.
TEST(ConfigLinkTest, WhatAConfigNamesLiesBesideTheFileAndNotBesideALinkToIt) {
  ConfigFile file;
  std::filesystem::create_directory(file.Path("peer"));
  const std::string real = file.Write("peer/config.toml", "[peer]\ndir = \".\"\n");
  std::filesystem::create_symlink(real, file.Path("peer.toml"));
  const absl::StatusOr<Config> config = LoadConfig(file.Path("peer.toml"), ConfigUse::kAny);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(std::filesystem::weakly_canonical(config->peer.dir),
            std::filesystem::weakly_canonical(file.Path("peer")));
}

}  // namespace
}  // namespace atolld
