// ToldClips: knows the clip of each update of a run, which is the length to which the update had to
// be scaled down, from the coordinator's own Train messages.
//
// A clip that follows a quantile changes from round to round, and an update is scaled down to the
// clip of the round in which its training began. The peer reports that clip (Ready.clip_bits), but
// it is not trusted: with a clip of its own choice, a peer could make it look as if a round
// protected no party. If this process sent the Train, the number of the Train identifies the clip.
// If an earlier process sent it, the version at which the training began identifies the clip. The
// peer reports that version, so until its next Train it can choose among the clips of all versions.
// Pure. Used by one thread.
#pragma once

#include <cstdint>
#include <map>

#include "atoll/v1/membership.pb.h"

namespace atolld {

class ToldClips {
 public:
  // `first` is the clip of training for version 1.
  explicit ToldClips(double first) : by_version_{{1, first}} {}

  void NoteTrain(uint64_t number, double clip);
  // Sets the clip of training for the entry of this version and later ones.
  void NoteVersion(uint64_t version, double clip) { by_version_[version] = clip; }

  double Of(const v1::Ready& ready) const;

 private:
  std::map<uint64_t, double> by_train_;  // the clips of the newest Trains
  // Each clip, by the first version that has it; never empty.
  std::map<uint64_t, double> by_version_;
};

}  // namespace atolld
