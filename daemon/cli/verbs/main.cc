// `atoll`: what people type.
#include "daemon/cli/command_line.h"
#include "daemon/cli/verbs/verbs.h"

int main(int argc, char** argv) {
  atolld::CommandLine command_line;
  command_line.DescribeGroup("run", "Look at a run, pause it, end it");
  command_line.DescribeGroup("peer", "Look at the peers of a run, ask them to leave");
  command_line.DescribeGroup("identity", "Certificates for processes of your own");
  command_line.DescribeGroup("token", "Let other machines join");
  command_line.DescribeGroup("log", "Look at a run's log of updates, and check it");
  command_line.DescribeGroup("snapshot", "Look at a replica's snapshots, check and save them");
  command_line.DescribeGroup("config", "Check config files, print them and their defaults");
  command_line.DescribeGroup("data", "Make and look at data to train on");
  command_line.DescribeGroup("bench", "Measure parts on this machine");
  atolld::AddLocalVerb(command_line);
  atolld::AddRunVerbs(command_line);
  atolld::AddPeerVerbs(command_line);
  atolld::AddIdentityVerbs(command_line);
  atolld::AddTokenVerbs(command_line);
  atolld::AddLogVerbs(command_line);
  atolld::AddSnapshotVerbs(command_line);
  atolld::AddEvalVerb(command_line);
  atolld::AddGenerateVerb(command_line);
  atolld::AddExportVerb(command_line);
  atolld::AddImportVerb(command_line);
  atolld::AddDataVerbs(command_line);
  atolld::AddConfigVerbs(command_line);
  atolld::AddCheckVerb(command_line);
  atolld::AddPlanVerb(command_line);
  atolld::AddBenchVerbs(command_line);
  return command_line.Run(argc, argv);
}
