#!/bin/bash
# The pipeline on one or several nodes of a Slurm cluster: sbatch --nodes=2 --gpus-per-node=8 configs/launch/slurm.sh
# Before, on a login node, in a folder that all nodes see: ./run assay config use grpo=PRESET, where the preset says
# distributed: {processes: nodes x GPUs a node, backend: nccl, engine: ddp}, and ./run hf download of the base. Arguments go to
# dvc repro.
#SBATCH --job-name=assay
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --output=assay-%j.txt
#SBATCH --open-mode=append
# Stopped five minutes before the time is up (and on preemption, where the cluster has PreemptParameters=send_user_signal),
# the training saves its step, the job is queued again, and the same command goes on from there.
#SBATCH --requeue
#SBATCH --signal=B:TERM@300
set -u
cd "${SLURM_SUBMIT_DIR:?this is for sbatch}" || exit 1

# DVC and the stages of one process run here, on the first node. A stage of several processes calls srun by itself, which
# starts one torchrun a node; the variable in single quotes is each node's own.
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    export ASSAY_ON_NODES="srun --ntasks-per-node=1 --kill-on-bad-exit=0" # 0: a node that has ended lets the others save
    export ASSAY_TORCHRUN="--nnodes=$SLURM_JOB_NUM_NODES --nproc-per-node=${SLURM_GPUS_ON_NODE:-1}"' --node-rank=$SLURM_NODEID '
    ASSAY_TORCHRUN+="--master-addr=$first --master-port=$((20000 + SLURM_JOB_ID % 20000))"
    export SRUN_CPUS_PER_TASK=${SLURM_CPUS_PER_TASK:-1} # srun itself no longer reads what sbatch was told
fi

# A srun that is sent SIGTERM kills its tasks at once, so the tasks are told themselves; DVC ends when its stage has.
stop() {
    stopped=yes
    if [ -n "${ASSAY_ON_NODES:-}" ] && [ -n "$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i | grep '\.[0-9]')" ]; then
        scancel --signal=TERM "$SLURM_JOB_ID"
    else
        kill -TERM "$dvc" # the stage is told by the kernel, and saves
    fi
}

# Through cat, whose end is that of the last one who writes there: a stage may still be saving when DVC is gone.
exec 3> >(exec cat)
said=$!
stopped=no
./run dvc repro "$@" >&3 2>&1 &
dvc=$!
trap stop TERM
exec 3>&-
until
    wait "$dvc" # which a signal ends too
    ! kill -0 "$dvc" 2>/dev/null
do :; done
wait "$dvc"
code=$?
while kill -0 "$said" 2>/dev/null; do wait "$said"; done
# A job that was cancelled is told to end in the same way, and is not queued again: it is no longer running.
if [ $stopped = yes ] && [ "$code" != 0 ] && squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T | grep -q '^RUNNING'; then
    echo "stopped after ${SLURM_RESTART_COUNT:-0} restarts; queued again"
    exec scontrol requeue "$SLURM_JOB_ID"
fi
[ "$code" = 0 ] || exit "$code"
./run assay verdict
