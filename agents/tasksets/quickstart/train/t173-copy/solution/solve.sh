#!/bin/bash
set -e
cd /app
cp score.txt plan.txt
echo phone > notes.txt
