#!/bin/bash
set -e
cd /app
echo 21 >> copy.txt
echo anchor > config.txt
