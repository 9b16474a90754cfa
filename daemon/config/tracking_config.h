// The section [tracking] of a coordinator's config: the experiment trackers that get the run's
// figures, and the program that writes them there.
//
// The functions only look at which files can be executed. They may be called from any thread.
#pragma once

#include <string>
#include <vector>

namespace atolld {

struct TrackingConfig {     // [tracking], in which an empty text means none
  std::string tensorboard;  // a folder of TensorBoard, with a folder for each run
  std::string wandb;        // a project of Weights & Biases: "PROJECT" or "ENTITY/PROJECT"
  std::string mlflow;       // a URI of MLflow's, or a folder
  std::string program;      // if empty, atoll-track, beside this binary or in PATH

  bool on() const { return !tensorboard.empty() || !wandb.empty() || !mlflow.empty(); }
};

// Returns the path of the program that writes to trackers; empty if it is not found. `folder` holds
// Atoll's own programs.
std::string FindTrackingProgram(const TrackingConfig& tracking, const std::string& folder);

// Returns the advice for a machine on which FindTrackingProgram finds nothing.
std::string NoTrackingProgramText();

// Returns the program's arguments for the trackers: "--to" and "tensorboard:/runs", and so on.
std::vector<std::string> TrackingTargets(const TrackingConfig& tracking);

}  // namespace atolld
