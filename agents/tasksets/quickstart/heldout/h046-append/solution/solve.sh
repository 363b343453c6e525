#!/bin/bash
set -e
cd /app
echo 75 >> draft.txt
echo horse > score.txt
