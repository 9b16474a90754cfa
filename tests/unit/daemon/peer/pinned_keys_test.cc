#include "daemon/peer/pinned_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/daemon/replica/state/test_run.h"

namespace atolld {
namespace {

using ::testing::HasSubstr;

v1::MaskRoster RosterWith(const std::string& peer, char byte) {
  v1::MaskRoster roster;
  v1::MaskKeys* const keys = roster.add_parties();
  keys->set_peer(peer);
  keys->set_signing_key(std::string(kPublicKeyBytes, byte));
  return roster;
}

TEST(PinnedKeysTest, AKeyIsKeptAsItWasFirstSeen) {
  // Broken: a restart would trust everybody anew, or the newest key would be believed.
  SimWorld world(1);
  const Env env = world.AddProcess("self").env();
  ASSERT_TRUE(env.files.MakeDirectories("/r").ok());
  const std::string own(kPublicKeyBytes, 'o');
  {
    PinnedKeys keys(env, "self", "/r");
    ASSERT_TRUE(keys.Load(own).ok());
    EXPECT_EQ(keys.known().size(), 1u) << "its own";
    keys.Pin(RosterWith("other", 'a'));
    keys.Pin(RosterWith("self", 'x'));
    world.RunFor(absl::Seconds(1));
  }
  EXPECT_EQ(FileBytes(env.files, "/r/mask_keys"),
            absl::StrCat("other ", absl::BytesToHexString(std::string(32, 'a')), "\n"));
  PinnedKeys keys(env, "self", "/r");
  ASSERT_TRUE(keys.Load(own).ok());
  keys.Pin(RosterWith("other", 'b'));
  world.RunFor(absl::Seconds(1));
  EXPECT_EQ(keys.known().at("other"), std::string(32, 'a'));
  EXPECT_EQ(keys.known().at("self"), own);
  EXPECT_EQ(keys.Contradiction(RosterWith("other", 'a')), "");
  EXPECT_EQ(keys.Contradiction(RosterWith("third", 'b')), "");
  EXPECT_THAT(keys.Contradiction(RosterWith("other", 'b')), HasSubstr("/r/mask_keys"));
}

TEST(PinnedKeysTest, ADamagedFileIsNotTakenForAnEmptyOne) {
  // Broken: a bit that rots would make the peer trust whoever comes first.
  SimWorld world(1);
  const Env env = world.AddProcess("self").env();
  ASSERT_TRUE(env.files.MakeDirectories("/r").ok());
  const std::string good = absl::StrCat("a ", std::string(64, '0'), "\n");
  for (const std::string& bad :
       {std::string("a 00\n"), absl::StrCat("b ", std::string(63, '0'), "x\n"),
        absl::StrCat("B ", std::string(64, '0'), "\n"), good,
        absl::StrCat("b  ", std::string(64, '0'), "\n")}) {
    ASSERT_TRUE(WriteFileDurably(env.files, "/r/mask_keys", BytesOf(absl::StrCat(good, bad))).ok());
    const absl::Status status = PinnedKeys(env, "self", "/r").Load(std::string(32, 'o'));
    EXPECT_TRUE(absl::IsDataLoss(status)) << bad;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/r/mask_keys: line 2 "));
  }
}

}  // namespace
}  // namespace atolld
