#!/bin/bash
set -e
cd /app
echo lion >> score.txt
echo cloud > draft.txt
