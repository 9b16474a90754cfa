#include "daemon/peer/life_count.h"

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "compression/base/bytes.h"
#include "compression/base/status_macros.h"
#include "membership/run/admission.h"

namespace atolld {
namespace {

constexpr uint64_t kMostLifeBytes = 64;

// Returns the first life of a new folder. A clock before 1970 gives a negative number.
uint64_t FirstLife(absl::Time wall) {
  return static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixSeconds(wall), 0)) + 1;
}

absl::Status WriteLife(Files& files, const std::string& path, uint64_t life) {
  return WriteFileDurably(files, path, BytesOf(absl::StrCat(life, "\n")));
}

}  // namespace

LifeCount::LifeCount(Env env, const std::string& dir)
    : env_(env), path_(absl::StrCat(dir, "/life")), queue_(env.executor) {}

absl::Status LifeCount::Begin() {
  uint64_t life = FirstLife(env_.executor.WallTime());
  if (env_.files.Exists(path_)) {
    const absl::StatusOr<std::string> text = ReadFile(env_.files, path_, kMostLifeBytes);
    if (!text.ok()) return text.status();
    uint64_t counted = 0;
    if (absl::SimpleAtoi(absl::StripSuffix(*text, "\n"), &counted) && counted < kMostLives) {
      life = counted + 1;
    } else {
      env_.log.Warning(absl::StrCat(path_, " holds no count of starts; it begins with the time"));
    }
  }
  const absl::Status written = WriteLife(env_.files, path_, life);
  if (!written.ok()) return Annotate(written, "this start cannot be counted");
  life_ = life;
  return absl::OkStatus();
}

void LifeCount::RaiseAbove(uint64_t other) {
  if (other < life_ || other >= kMostLives) return;
  auto written = std::make_shared<absl::Status>();
  queue_.Run([&files = env_.files, path = path_, life = other + 1,
              written] { *written = WriteLife(files, path, life); },
             guard_.Wrap([this, life = other + 1, written] {
               if (written->ok()) {
                 life_ = std::max(life_, life);
               } else {
                 env_.log.Error(absl::StrCat("no greater life can be taken: ", written->message()));
               }
             }));
}

}  // namespace atolld
