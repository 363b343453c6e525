#!/bin/bash
set -e
cd /app
echo black >> score.txt
echo diamond > log.txt
